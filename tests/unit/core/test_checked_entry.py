"""What is remembered of a whole entry, and when it is read again."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from cpuwheels.core import checked_entry as module
from cpuwheels.core import store as store_module
from cpuwheels.core.checked_entry import PREFIX, TRUSTED_SECONDS, Look
from cpuwheels.core.sealed_entry import MANIFEST
from cpuwheels.core.store import Store


def fill(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "a").write_text("a")
    (folder / "b").write_text("b")
    (folder / "link").symlink_to("b")


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries count as made long ago."""
    monkeypatch.setattr(module, "_SETTLED_SECONDS", -1e6)


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The entries that are read."""
    found: list[str] = []
    check = store_module.check_entry
    monkeypatch.setattr(store_module, "check_entry", lambda entry, **of: found.append(entry.name) or check(entry, **of))
    return found


@pytest.fixture
def entry(tmp_path: Path, checks: list[str]) -> Path:
    """An entry that was made and found once."""
    made = Store(tmp_path).get("kind", "key", fill)
    assert Store(tmp_path).get("kind", "key", fill) == made
    assert checks == ["key"]
    checks.clear()
    return made


def found(entry: Path) -> Path:
    return Store(entry.parents[1]).get("kind", "key", fill)


def test_a_whole_entry_is_read_once(entry: Path, checks: list[str]) -> None:
    assert found(entry) == found(entry) == entry
    assert checks == []


def other_bytes(entry: Path) -> None:
    status = (entry / "b").stat()
    (entry / "b").write_text("c")
    os.utime(entry / "b", ns=(status.st_atime_ns, status.st_mtime_ns))


def other_manifest(entry: Path) -> None:
    said = json.loads((entry / MANIFEST).read_text())
    said["files"]["b"] = "0" * 64
    (entry / MANIFEST).write_text(json.dumps(said))


def replaced(entry: Path) -> None:
    (entry / "new").write_text("c")
    (entry / "new").replace(entry / "sub" / "a")


@pytest.mark.parametrize(
    "change",
    [
        other_bytes,
        other_manifest,
        replaced,
        lambda entry: (entry / "sub" / "more").write_text(""),
        lambda entry: (entry / "sub" / "more").mkdir(),
        lambda entry: (entry / "sub" / "a").unlink(),
        lambda entry: (entry / "link").unlink() or (entry / "link").symlink_to("a"),
    ],
    ids=["bytes", "manifest", "replaced", "file", "folder", "removed", "link"],
)
def test_what_was_changed_is_read_and_made_again(entry: Path, checks: list[str], change: object) -> None:
    assert callable(change)
    change(entry)
    assert found(entry) == entry
    assert checks == ["key"]
    assert (entry / "sub" / "a").read_text() == "a"
    assert (entry / "b").read_text() == "b"
    assert not (entry / "sub" / "more").exists()


def test_after_a_day_it_is_read_again(entry: Path, checks: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    for later, times in ((TRUSTED_SECONDS - 60, 0), (TRUSTED_SECONDS + 60, 1), (-60, 2)):
        monkeypatch.setattr(time, "time", lambda later=later: now + later)
        found(entry)
        assert len(checks) == times, later


def test_after_a_start_of_the_machine_it_is_read_again(
    entry: Path, checks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("psutil.boot_time", lambda: time.time() - 5.0)
    found(entry)
    assert checks == ["key"]


def test_what_changed_a_moment_ago_is_not_remembered(
    tmp_path: Path, checks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SETTLED_SECONDS", 2.0)
    for _ in range(3):
        Store(tmp_path).get("kind", "key", fill)
    assert checks == ["key", "key"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"checked": "x", "look": 1}', '{"look": "x"}'])
def test_a_damaged_note_counts_as_none(entry: Path, checks: list[str], text: str) -> None:
    entry.with_name(f"{PREFIX}key").write_text(text)
    assert found(entry) == entry
    assert checks == ["key"]


def test_a_store_that_cannot_be_written_is_read_each_time(tmp_path: Path) -> None:
    entry = Store(tmp_path).get("kind", "key", fill)
    entry.with_name(f"{PREFIX}key").mkdir()
    Look(entry, ()).remember()
    assert not Look(entry, ()).is_known


def test_what_is_taken_out_is_forgotten(entry: Path) -> None:
    assert entry.with_name(f"{PREFIX}key").is_file()
    Store(entry.parents[1]).discard("kind", "key")
    assert list(entry.parent.glob("*key*")) == []


def test_a_pipe_in_place_of_the_manifest_is_not_read(entry: Path) -> None:
    (entry / MANIFEST).unlink()
    os.mkfifo(entry / MANIFEST)
    assert found(entry) == entry
    assert (entry / MANIFEST).is_file()


def test_names_that_are_no_text_do_not_stop_it(tmp_path: Path) -> None:
    (tmp_path / "entry").mkdir()
    (tmp_path / "entry" / os.fsdecode(b"\xff")).write_text("")
    assert not Look(tmp_path / "entry", ()).is_known
