"""Reports next to a wheel, files of the index, and moments at which a publisher ends: nothing is forged, links hold."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from attacked_index import Attacked, files, members
from commit_wheels import wheel
from cpuwheels.core.errors import PublishError
from cpuwheels.index.check import check_index, repair_index
from cpuwheels.index.publish_wheel import publish_wheel
from index_publications import Dying, DyingError, check_links


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        pytest.param("speed.json", '{"geometric_mean": NaN}', "NaN is no number", id="36-nan"),
        pytest.param("parity.json", "[" * 200_000, "nested more than", id="37-nested-deeply"),
        pytest.param("record.json", '{"a": 1, "a": 2}', "is there twice", id="38-key-twice"),
        pytest.param("serve.json", '{"n": ' + "9" * 5000 + "}", "digits", id="39-number-of-5000-digits"),
        pytest.param("speed.json", "[]", "cannot be read", id="40-another-form"),
    ],
)
def test_a_report_that_is_not_what_all_read(attacked: Attacked, name: str, text: str, words: str) -> None:
    path = attacked.write(members())
    path.with_name(name).write_text(text)
    attacked.refuses(path, words)


@pytest.mark.parametrize("kind", [pytest.param("link", id="41-a-link"), pytest.param("pipe", id="42-a-pipe")])
def test_a_report_that_is_no_file(attacked: Attacked, kind: str) -> None:
    path = attacked.write(members())
    record = path.with_name("record.json")
    record.unlink()
    record.symlink_to(attacked.base / "home" / "secret") if kind == "link" else os.mkfifo(record)
    attacked.refuses(path, "cannot be read")


def test_43_a_page_with_a_script(attacked: Attacked) -> None:
    path = attacked.write(members())
    for name in ("report.html", "parity.html", "index.html"):
        path.with_name(name).write_text("<script>evil()</script>")
    attacked.publish(path)
    assert [name for name, content in files(attacked.root).items() if b"evil()" in content] == []
    attacked.holds()


def test_44_a_record_with_places_and_passwords(attacked: Attacked) -> None:
    path = attacked.write(members())
    path.with_name("record.json").write_text(
        json.dumps({"files": [{"source": "/home/me/.cache/x.cpp"}], "index": "https://me:geheim@example.org/simple"})
    )
    attacked.publish(path)
    everything = b"".join(files(attacked.root).values())
    assert b"geheim" not in everything
    assert b"/home/me" not in everything
    attacked.holds()


def test_45_other_bytes_under_a_published_name(attacked: Attacked) -> None:
    attacked.publish(attacked.write(members()))
    attacked.refuses(attacked.write(members(more={"vllm/evil.py": b"evil"})), "with other bytes")


def test_46_another_commit_for_a_published_wheel(attacked: Attacked) -> None:
    assert any(one.name.endswith("cpuwheels.json") for one in members())
    attacked.refuses(attacked.write(members()), "was built from commit", commit=f"{9:040x}")


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda content: content[::-1], id="47-other-bytes"),
        pytest.param(lambda content: content[:-1], id="48-cut"),
        pytest.param(lambda _: b"", id="49-empty"),
    ],
)
def test_a_damaged_wheel_that_is_published_again(attacked: Attacked, damage: Any) -> None:
    path = next(attacked.root.glob("files/*/*dev2*x86_64.whl"))
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert [fault.what for fault in check_index(attacked.bucket)]
    found = attacked.publish(wheel(attacked.base / "again", 2))
    assert (found.new, found.healed, path.read_bytes() == whole) == (False, True, True)
    attacked.holds()


@pytest.mark.parametrize(
    ("page", "content"),
    [
        pytest.param("publishing.json", {"entry": {"filename": "../../home/evil.whl"}}, id="50-journal-with-a-path"),
        pytest.param("publishing.json", [], id="51-journal-of-another-form"),
        pytest.param("nightly/cpu/vllm/index.v1.json", {"files": [{"_cpuwheels": {}}]}, id="52-view-without-facts"),
        pytest.param("commits.json", {"days": ["../../home/secret"]}, id="53-days-with-a-path"),
        pytest.param("removing.json", {"paths": "index.html"}, id="66-removal-of-another-form"),
    ],
)
def test_a_forged_page(attacked: Attacked, page: str, content: Any) -> None:
    (attacked.root / page).write_text(json.dumps(content))
    before, outside = files(attacked.root), files(attacked.base / "home")
    with pytest.raises(PublishError, match="is damaged") as raised:
        attacked.publish(attacked.write(members()))
    assert raised.value.next_step
    assert files(attacked.root) == before
    assert files(attacked.base / "home") == outside
    assert check_links(attacked.root) > 0
    assert "evil" not in "".join(files(attacked.root))


@pytest.mark.parametrize(
    "place",
    [pytest.param("nightly", id="54-view-that-is-a-link"), pytest.param("latest", id="55-folder-that-is-a-link")],
)
def test_a_folder_of_the_index_that_leads_outside(attacked: Attacked, place: str) -> None:
    (attacked.root / place).rename(attacked.base / "home" / place)
    (attacked.root / place).symlink_to(attacked.base / "home" / place)
    outside = files(attacked.base / "home")
    with pytest.raises(PublishError, match="is a link"):
        attacked.publish(attacked.write(members()))
    assert files(attacked.base / "home") == outside


def test_67_a_removal_with_a_path(attacked: Attacked) -> None:
    (attacked.root / "removing.json").write_text('{"paths": ["../home/secret"]}')
    before = files(attacked.root)
    with pytest.raises(PublishError, match="something else that no publisher wrote"):
        attacked.publish(attacked.write(members()))
    assert (attacked.base / "home" / "secret").is_file()
    assert files(attacked.root) == before


def test_56_a_lock_that_names_another_wheel(attacked: Attacked) -> None:
    path = attacked.write(members())
    path.with_name("pylock.toml").write_text(
        'lock-version = "1.0"\ncreated-by = "evil"\n[[packages]]\nname = "vllm"\n'
        f'[[packages.wheels]]\npath = "{path.name}"\nhashes = {{sha256 = "{"0" * 64}"}}\n'
    )
    attacked.refuses(path, "it is not the lock of")


def test_57_a_publisher_that_dies_at_any_moment(attacked: Attacked) -> None:
    path = attacked.write(members())
    died = 0
    for at in range(60):
        try:
            publish_wheel(Dying(attacked.root, at), path, attacked.matrix, nightly=True)
        except DyingError:
            died += 1
            check_links(attacked.root)
        else:
            break
    assert died > 8
    attacked.holds()


def test_58_what_was_removed_is_said_and_written_again(attacked: Attacked) -> None:
    before = files(attacked.root)
    for page in ("index.html", "nightly/cpu/index.html"):
        (attacked.root / page).write_text("<a href='https://evil.example.org'>vllm</a>")
    assert len(check_index(attacked.bucket)) == 2
    assert repair_index(attacked.bucket) == []
    assert files(attacked.root) == before
    attacked.holds()
