"""A shared store in a folder: whole files or none, and no links."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from cpuwheels.shared import folder as module
from cpuwheels.shared.folder import LOCK, Folder
from cpuwheels.shared.place import PlaceFaultError


@pytest.fixture
def place(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "shared")


def test_nothing_is_made_before_something_is_written(place: Folder, tmp_path: Path) -> None:
    assert place.read("a/b", 10) is None
    assert place.size("a/b") is None
    assert list(place.objects()) == []
    place.remove("a/b")
    assert not (tmp_path / "shared").exists()


def test_files_can_be_read_by_others(place: Folder, tmp_path: Path) -> None:
    place.add("a/b", b"x")
    assert stat.S_IMODE((tmp_path / "shared" / "a" / "b").stat().st_mode) == 0o644


def test_an_empty_folder_goes_with_its_last_file(place: Folder, tmp_path: Path) -> None:
    place.add("a/b", b"x")
    place.add("a/c", b"x")
    place.remove("a/b")
    assert (tmp_path / "shared" / "a").is_dir()
    place.remove("a/c")
    assert not (tmp_path / "shared" / "a").exists()


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_what_is_no_file_is_a_fault_of_one_object(place: Folder, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "shared" / "a"
    path.parent.mkdir()
    if kind == "link":
        (tmp_path / "secret").write_text("secret")
        path.symlink_to(tmp_path / "secret")
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    for read in (lambda: place.read("a", 100), lambda: b"".join(place.stream("a", 100))):
        with pytest.raises(PlaceFaultError) as raised:
            read()
        assert raised.value.alone


def test_a_dangling_link_is_not_written_through(place: Folder, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "a").symlink_to(tmp_path / "outside")
    assert not place.add("a", b"x")
    assert not (tmp_path / "outside").exists()


def test_somebody_who_holds_the_lock_for_ever_is_a_fault(
    place: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WAIT_SECONDS", 0.05)
    place.add("a", b"x")
    seen = place.read("a", 10)
    assert seen
    with Folder(tmp_path / "shared")._alone(), pytest.raises(PlaceFaultError, match="for too long"):
        place.replace("a", b"y", seen)
    assert place.replace("a", b"y", seen)
    assert [one.path for one in place.objects()] == ["a"], f"{LOCK} is none of the objects"
