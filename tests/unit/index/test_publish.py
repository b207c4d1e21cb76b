"""Publishing: what is there afterwards, and after a publisher died at any moment."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cpuwheels.core.errors import DiskFullError, PublishError
from cpuwheels.index import bucket as buckets
from cpuwheels.index.bucket import Folder
from cpuwheels.index.commit_pages import Missing, Row
from cpuwheels.index.entry import Entry, Speed
from cpuwheels.index.layout import JOURNAL, wheel_path
from cpuwheels.index.publish import Publication, note_missing, publish, wheel_before
from cpuwheels.index.reading import read_entries
from index_publications import Dying, DyingError, check_links, publication


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "index"


def test_a_wheel_is_listed_by_its_commit_and_as_the_newest(root: Path, tmp_path: Path) -> None:
    one = publication(tmp_path / "dist")
    assert publish(Folder(root), one).new
    bucket = Folder(root)
    assert read_entries(bucket, one.entry.commit or "") == read_entries(bucket, "nightly") == [one.entry]
    assert (root / wheel_path(one.entry)).read_bytes() == one.wheel.read_bytes()
    assert (root / wheel_path(one.entry)).with_name("record.json").read_bytes() == b"{}"
    assert json.loads((root / "latest" / "x86.json").read_text())["filename"] == one.entry.filename
    assert not (root / JOURNAL).exists()
    assert check_links(root) >= 4


def test_each_target_has_its_newest(root: Path, tmp_path: Path) -> None:
    for number, target in ((1, "x86"), (1, "arm"), (2, "x86")):
        publish(Folder(root), publication(tmp_path / "dist", number, target))
    assert [(one.target, one.commit) for one in read_entries(Folder(root), "nightly")] == [
        ("arm", f"{1:040x}"),
        ("x86", f"{2:040x}"),
    ]
    assert {one.target for one in read_entries(Folder(root), f"{1:040x}")} == {"arm", "x86"}
    commits = json.loads((root / "commits.json").read_text())
    assert [(row["commit"], sorted(row["wheels"])) for row in commits["newest"]] == [
        (f"{2:040x}", ["x86"]),
        (f"{1:040x}", ["arm", "x86"]),
    ]
    assert commits["days"] == ["2026-11-02", "2026-11-01"]
    check_links(root)


def test_an_older_wheel_takes_its_place_among_the_others(root: Path, tmp_path: Path) -> None:
    publish(Folder(root), publication(tmp_path / "dist", 9))
    publish(Folder(root), publication(tmp_path / "dist", 3))
    assert [one.commit for one in read_entries(Folder(root), "nightly")] == [f"{9:040x}"]
    newest = json.loads((root / "commits.json").read_text())["newest"]
    assert [row["commit"] for row in newest] == [f"{9:040x}", f"{3:040x}"]


def test_a_release_is_listed_by_its_version(root: Path, tmp_path: Path) -> None:
    one = publication(tmp_path / "dist")
    release = one.entry.model_copy(update={"version": "0.32.0+cpu", "commit": None})
    publish(Folder(root), replace(one, entry=release, nightly=False))
    assert read_entries(Folder(root), "0.32.0") == [release]
    assert not (root / "nightly").exists()


def test_the_same_again_changes_nothing(root: Path, tmp_path: Path) -> None:
    one = publication(tmp_path / "dist")
    publish(Folder(root), one)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    later = replace(one, entry=one.entry.model_copy(update={"uploaded": "2027-01-01T00:00:00Z"}))
    assert not publish(Folder(root), later).new
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("damage", ["other bytes", "cut", "empty", "gone"])
@pytest.mark.parametrize("suffix", ["", ".metadata"])
def test_what_is_damaged_is_healed_and_said(root: Path, tmp_path: Path, damage: str, suffix: str) -> None:
    one = publication(tmp_path / "dist")
    publish(Folder(root), one)
    path = root / f"{wheel_path(one.entry)}{suffix}"
    whole = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes({"other bytes": whole[::-1], "cut": whole[:-1], "empty": b""}[damage])
    found = publish(Folder(root), one)
    assert (found.new, found.healed) == (False, True)
    assert path.read_bytes() == whole
    assert not publish(Folder(root), one).healed


def test_a_verdict_that_came_later_is_said_on_every_page(root: Path, tmp_path: Path) -> None:
    one = publication(tmp_path / "dist")
    publish(Folder(root), one)
    later = replace(one, entry=one.entry.model_copy(update={"parity": "passed"}), nightly=False)
    found = publish(Folder(root), later)
    assert found.views == (one.entry.commit, "nightly")
    assert {entry.parity for view in found.views for entry in read_entries(Folder(root), view)} == {"passed"}
    assert '"parity": "passed"' in (root / "commits.json").read_text()


def test_other_bytes_under_the_same_name_are_refused(root: Path, tmp_path: Path) -> None:
    publish(Folder(root), publication(tmp_path / "dist"))
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with pytest.raises(PublishError, match="with other bytes"):
        publish(Folder(root), publication(tmp_path / "dist", content="other"))
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_what_was_said_before_is_kept(root: Path, tmp_path: Path) -> None:
    one = publication(tmp_path / "dist")
    speed = Speed(against="before.whl", ratio=1.5)
    said = {"parity": "passed", "served": "passed", "speed": speed, "beside": ("parity.json", "record.json")}
    first = replace(one, entry=one.entry.model_copy(update=said), reports={"parity.json": b"[]", "record.json": b"{}"})
    publish(Folder(root), first)
    assert publish(Folder(root), one).entry == first.entry


def test_nothing_is_left_of_a_wheel_that_cannot_be_written(root: Path, tmp_path: Path) -> None:
    publish(Folder(root), publication(tmp_path / "dist", 1))
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    for at in range(FILES_FIRST + 1):
        with pytest.raises(PublishError, match="no space"):
            publish(Full(root, at), publication(tmp_path / "dist", 2))
        assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_too_little_room_is_said_before_anything_is_written(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "free_bytes", lambda _: 1 << 20)
    with pytest.raises(DiskFullError, match="1 MiB are free, 16 MiB are needed"):
        publish(Folder(root), publication(tmp_path / "dist"))
    assert [path.name for path in root.rglob("*") if path.suffix == ".whl"] == []


def test_the_wheel_before_one(root: Path, tmp_path: Path) -> None:
    ours = {}
    for number, target in ((1, "x86"), (2, "x86"), (2, "arm"), (4, "x86")):
        one = publication(tmp_path / "dist", number, target)
        ours[number, target] = one.entry.filename
        publish(Folder(root), one)

    def before(number: int, target: str = "x86", **changes: object) -> str | None:
        asked = publication(tmp_path / "asked", number, target).entry.model_copy(update=changes)
        found = wheel_before(Folder(root), asked)
        return found.filename if found else None

    assert before(3) == before(4) == ours[2, "x86"]  # not itself
    assert before(5) == ours[4, "x86"]
    assert before(5, "arm") == ours[2, "arm"]
    assert before(1) is None
    assert before(9, commit=None) is None  # no release came before
    assert wheel_before(Folder(tmp_path / "nothing"), publication(tmp_path / "asked").entry) is None


class TestMissing:
    WHY = Missing(state="failed", reason="ops.cpp does not compile", tried="2026-11-23T05:00:00Z")

    def row(self, number: int, target: str = "x86") -> Row:
        return Row(
            commit=f"{number:040x}", version="", made=f"2026-11-{number:02}T10:00:00Z", missing={target: self.WHY}
        )

    def test_it_is_said_until_the_wheel_is_there(self, root: Path, tmp_path: Path) -> None:
        note_missing(Folder(root), self.row(2))
        assert "not built" in (root / "index.html").read_text()
        publish(Folder(root), publication(tmp_path / "dist", 2, "arm"))
        note_missing(Folder(root), self.row(2))
        (row,) = json.loads((root / "commits.json").read_text())["newest"]
        assert (list(row["wheels"]), list(row["missing"])) == (["arm"], ["x86"])
        assert row["version"].startswith("0.32.1.dev2")
        assert check_links(root) > 0
        publish(Folder(root), publication(tmp_path / "dist", 2))
        (row,) = json.loads((root / "commits/2026-11-02.json").read_text())["rows"]
        assert (list(row["wheels"]), row["missing"]) == (["arm", "x86"], {})
        assert "not built" not in (root / "index.html").read_text()

    def test_a_wheel_that_is_there_is_not_missing(self, root: Path, tmp_path: Path) -> None:
        publish(Folder(root), publication(tmp_path / "dist", 2))
        before = (root / "commits.json").read_text()
        note_missing(Folder(root), self.row(2))
        assert (root / "commits.json").read_text() == before


class Full(Dying):
    """A folder that is full at one of its changes; there is always room to remove something."""

    def _step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise PublishError("cannot write: no space left on device", where=self.name)

    def remove(self, path: str) -> None:
        Folder.remove(self, path)


FILES_FIRST = 3
"""Changes before the journal is there: wheel, metadata, report."""


def changes(root: Path, one: Publication) -> int:
    """Return how many changes a publication makes."""
    counting = Dying(root, 10_000)
    publish(counting, one)
    return 10_000 - counting.left


def test_after_a_death_at_any_moment_every_link_holds_and_the_next_finishes(tmp_path: Path) -> None:
    first, second, third = (publication(tmp_path / "dist", number) for number in (1, 2, 3))
    publish(Folder(tmp_path / "whole"), first)
    count = changes(tmp_path / "whole", second)
    publish(Folder(tmp_path / "whole"), third)
    whole = {
        path.relative_to(tmp_path / "whole"): path.read_bytes()
        for path in (tmp_path / "whole").rglob("*.*")
        if path.is_file()
    }
    assert count > 8
    for at in range(count):
        root = tmp_path / f"died{at}"
        publish(Folder(root), first)
        with pytest.raises(DyingError):
            publish(Dying(root, at), second)
        check_links(root)
        assert first.entry in read_entries(Folder(root), first.entry.commit or "")
        publish(Folder(root), third)
        check_links(root)
        # From the journal on, the next publisher has done it.
        assert bool(read_entries(Folder(root), second.entry.commit or "")) == (at > FILES_FIRST)
        publish(Folder(root), replace(second, nightly=False))
        found = {path.relative_to(root): path.read_bytes() for path in root.rglob("*.*") if path.is_file()}
        assert found == whole


@pytest.mark.parametrize(
    ("path", "content", "words"),
    [
        ("index.json", b'{"format": 2, "project": "vllm"}', "has format 2"),
        ("index.json", b"{", "index.json is damaged"),
        ("publishing.json", b"{}", "publishing.json is damaged"),
        ("nightly/cpu/vllm/index.v1.json", b"<html>", "index.v1.json is damaged"),
        ("commits.json", b"[]", "commits.json is damaged"),
    ],
)
def test_an_index_that_cannot_be_understood_is_left_alone(
    root: Path, tmp_path: Path, path: str, content: bytes, words: str
) -> None:
    publish(Folder(root), publication(tmp_path / "dist"))
    (root / path).write_bytes(content)
    with pytest.raises(PublishError, match=words):
        publish(Folder(root), publication(tmp_path / "dist", 2))
    assert (root / path).read_bytes() == content


def test_entries_of_no_view(root: Path) -> None:
    found: list[Entry] = read_entries(Folder(root), "nothing")
    assert found == []
