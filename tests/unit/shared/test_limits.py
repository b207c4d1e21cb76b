"""What a shared store keeps: what is used, and no more than it may."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from cpuwheels.core.elsewhere import taken_from
from cpuwheels.core.errors import SharedStoreError
from cpuwheels.core.store import Store
from cpuwheels.core.trust import Trust
from cpuwheels.shared import limits
from cpuwheels.shared.description import description_path
from cpuwheels.shared.folder import Folder
from cpuwheels.shared.limits import SharedEntry, chosen, prune
from cpuwheels.shared.place import Stored
from shared_stores import BESIDE, Open, make_kernels, other_store, reader, share_all, states

DAY = 24 * 3600.0


def entry(name: str, used: float, size: int) -> SharedEntry:
    path = f"v1/kernels/{name}/description.json"
    return SharedEntry("kernels", name, Trust.RELEASE, Stored(path, 1, used), (Stored("object", size - 1, 0.0),))


@pytest.mark.parametrize(
    ("oldest", "down_to", "gone"),
    [
        (0, None, ""),
        (2.5, None, "ab"),
        (0, 100, ""),
        (0, 60, ""),
        (0, 59, "a"),
        (0, 40, "ab"),
        (2.5, 40, "ab"),
        (0, 0, "abc"),
        (9, None, "abc"),
    ],
)
def test_the_longest_unused_goes_first(oldest: float, down_to: int | None, gone: str) -> None:
    entries = [entry("c", 3, 30), entry("a", 1, 10), entry("b", 2, 20)]
    found = chosen(entries, 60, oldest=oldest, down_to=down_to)
    assert "".join(one.key for one in found) == gone


@pytest.fixture
def filled(store: Store, tmp_path: Path) -> Path:
    """A folder with kernels that were shared 1, 40 and 50 days ago, and what a compiler read."""
    shared = tmp_path / "shared"
    for key in "abc":
        make_kernels(store if key != "b" else store.trusting(Trust.COMMIT), key * 24)
    lists = store.root / "reads" / BESIDE
    lists.mkdir(parents=True)
    (lists / f"{'0' * 16}.json").write_text("{}")
    share_all(store, Folder(shared))
    for key, days, trust in (("a", 50, Trust.RELEASE), ("b", 40, Trust.COMMIT), ("c", 1, Trust.RELEASE)):
        for path in (shared / description_path("kernels", key * 24, trust)).parent.iterdir():
            os.utime(path, (time.time(), time.time() - days * DAY))
    for path in (shared / "v1" / "reads").rglob("*.*"):
        os.utime(path, (time.time(), time.time() - 99 * DAY))
    return shared


def test_what_nobody_used_for_long_is_removed(filled: Path, store: Store, tmp_path: Path) -> None:
    planned = prune(Folder(filled), dry_run=True)
    done = prune(Folder(filled))
    assert done == planned
    assert done.removed == (f"kernels/{'a' * 24}", f"from-commits/kernels/{'b' * 24}")
    assert (done.entries, done.leftovers) == (3, ())
    assert 0 < done.freed < done.size
    assert prune(Folder(filled)).removed == ()
    told: list[str] = []
    with taken_from(reader(Folder(filled), told)):
        other = other_store(tmp_path / "other")
        assert [bool(other.find("kernels", key * 24)) for key in "ac"] == [False, True]
    assert told == []
    assert (filled / "v1" / "reads" / BESIDE / "description.json").is_file()
    assert "shared" in states(share_all(store, Folder(filled))).values()


def test_until_a_size_is_reached(filled: Path) -> None:
    size = prune(Folder(filled), days=365, dry_run=True).size
    assert prune(Folder(filled), days=365, down_to=size).removed == ()
    assert prune(Folder(filled), days=365, down_to=size - 1).removed == (f"kernels/{'a' * 24}",)
    assert len(prune(Folder(filled), days=365, down_to=1).removed) == 2
    assert (filled / "v1" / "reads" / BESIDE / "description.json").is_file(), "lists stay"


def test_a_dry_run_removes_nothing(filled: Path) -> None:
    before = sorted(filled.rglob("*"))
    assert prune(Folder(filled), days=0, dry_run=True).removed
    assert sorted(filled.rglob("*")) == before


def test_what_nothing_describes_is_removed_after_a_day(filled: Path) -> None:
    kept = filled / "v1" / "kernels" / ("c" * 24)
    torn = [kept / f"{'0' * 64}.tar.gz", filled / "v1" / "kernels" / ("d" * 24) / f"{'0' * 64}.tar.gz"]
    fresh = filled / "v1" / "kernels" / ("e" * 24) / f"{'0' * 64}.tar.gz"
    unfinished = kept / ".unfinished-abc"
    for path in (*torn, fresh, unfinished):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * 10)
    for path in (*torn, unfinished):
        os.utime(path, (time.time(), time.time() - 2 * DAY))
    done = prune(Folder(filled), days=365)
    assert done.leftovers == tuple(sorted(path.relative_to(filled).as_posix() for path in (*torn, unfinished)))
    assert done.freed == 30
    assert fresh.is_file()
    assert len(list(kept.iterdir())) == 2
    assert done.removed == ()


def test_files_of_others_stay(filled: Path) -> None:
    others = [filled / "README.md", filled / "v1" / "notes.txt", filled / "v2" / "kernels" / "a" / "b"]
    for path in others:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        os.utime(path, (1, 1))
    prune(Folder(filled), days=0)
    assert all(path.is_file() for path in others)


def test_a_bucket_has_limits_too(store: Store, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    make_kernels(store)
    make_kernels(store, "f" * 24, text="more")
    share_all(store, opened())
    assert prune(opened()).removed == ()
    monkeypatch.setattr(limits, "_DAY", 0.0)
    time.sleep(0.01)
    assert len(prune(opened()).removed) == 2
    assert list(opened().objects()) == []


def test_a_place_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, filled: Path) -> None:
    monkeypatch.setattr(os, "walk", lambda _: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
    with pytest.raises(SharedStoreError, match="cannot be pruned"):
        prune(Folder(filled))
