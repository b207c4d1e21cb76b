"""What is removed from the stores, and what stays."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cpuwheels.core.cleaning import Entry, chosen, clean
from cpuwheels.core.errors import StoreError
from cpuwheels.core.filesystem import sharing
from cpuwheels.core.sealed_entry import MANIFEST, used_at
from cpuwheels.core.store import Store
from cpuwheels.core.trust import Trust

KEY, OTHER = "a" * 24, "b" * 24
DAY = 24 * 3600


def writing(size: int) -> Callable[[Path], None]:
    return lambda folder: (folder / "file").write_bytes(os.urandom(size)) and None


def unused(entry: Path, days: float, name: str = MANIFEST) -> Path:
    """Make an entry look as if it was used last some days ago."""
    before = time.time() - days * DAY
    os.utime(entry / name, (before, (entry / name).stat().st_mtime))
    return entry


def entry(name: str, used: float, **files: int) -> Entry:
    return Entry("sources", Path(name), used, {(1, ord(file)): size for file, size in files.items()})


def test_what_was_not_used_for_long_is_removed_and_made_again(store: Store) -> None:
    old = unused(store.get("sources", KEY, writing(10)), 31)
    new = unused(store.get("sources", OTHER, writing(10)), 29)
    done = clean(store.root)
    assert not old.exists()
    assert new.is_dir()
    assert [(kind.name, kind.entries, kind.removed) for kind in done.kinds] == [("sources", 2, 1)]
    assert store.get("sources", KEY, writing(10)) == old


def test_taking_an_entry_is_using_it(store: Store) -> None:
    made = unused(store.get("sources", KEY, writing(10)), 31)
    changed = (made / MANIFEST).stat().st_mtime
    assert store.find("sources", KEY) == made
    assert used_at(made) > time.time() - 60
    assert (made / MANIFEST).stat().st_mtime == changed
    unused(made, 31)
    store.get("sources", KEY, writing(10))
    clean(store.root)
    assert made.is_dir()


def test_a_dry_run_removes_nothing(store: Store) -> None:
    old = unused(store.get("sources", KEY, writing(10)), 31)
    dry = clean(store.root, dry_run=True)
    assert old.is_dir()
    assert clean(store.root) == dry
    assert not old.exists()


@pytest.mark.parametrize("trust", Trust)
def test_results_of_all_who_are_trusted(store: Store, trust: Trust) -> None:
    old = unused(store.trusting(trust).get("kernels", KEY, writing(10)), 31)
    clean(store.root)
    assert not old.exists()


def test_what_killed_runs_left_is_removed(store: Store) -> None:
    for name in (f".new-{KEY}", f".discarded-{KEY}-123"):
        (store.root / "sources" / name / "sub").mkdir(parents=True)
    kept = store.get("sources", OTHER, writing(10))
    assert clean(store.root).kinds[0].removed == 2
    assert list((store.root / "sources").iterdir()) == [kept]


def test_environments_and_compiler_caches_count(store: Store) -> None:
    environment = store.root / "environments" / KEY
    own, commits = store.root / "compiler-cache", store.root / "from-commits" / "compiler-cache" / KEY
    for folder in (environment, own / "tmp", commits / "tmp"):
        folder.mkdir(parents=True)
    (environment / "pyvenv.cfg").touch()
    long_ago = time.time() - 31 * DAY
    os.utime(own, (long_ago, long_ago))
    for folder in (commits, commits / "tmp"):
        os.utime(folder, (long_ago, long_ago))
    unused(environment, 31, "pyvenv.cfg")
    clean(store.root)
    assert not environment.exists()
    assert own.is_dir(), "a compilation left its trace in tmp"
    assert not commits.exists()


def test_what_is_no_entry_stays(store: Store, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()
    for folder in ("git/onednn", "measured", "sources/unsealed"):
        (store.root / folder).mkdir(parents=True)
    (store.root / "sources" / "link").symlink_to(outside)
    (store.root / "elsewhere").symlink_to(outside)
    clean(store.root, days=0, down_to=1)
    assert (store.root / "git" / "onednn").is_dir()
    assert (store.root / "measured").is_dir()
    assert (store.root / "sources" / "unsealed").is_dir()
    assert (outside / "file").is_file()


def test_no_stores_yet(tmp_path: Path) -> None:
    assert clean(tmp_path / "none").size == 0
    assert not (tmp_path / "none").exists()


def test_stores_in_use(store: Store) -> None:
    old = unused(store.get("sources", KEY, writing(10)), 31)
    with sharing(store.root), sharing(store.root):
        with pytest.raises(StoreError, match="in use"):
            clean(store.root)
        assert clean(store.root, dry_run=True).kinds[0].removed == 1
    assert old.is_dir()
    clean(store.root)
    assert not old.exists()


def test_what_was_used_in_the_last_day_stays_whatever_the_size(store: Store) -> None:
    new = store.get("sources", KEY, writing(10))
    old = unused(store.get("sources", OTHER, writing(10)), 2)
    clean(store.root, down_to=1)
    assert new.is_dir()
    assert not old.exists()
    clean(store.root, days=0, down_to=1)
    assert not new.exists()


def test_sizes_are_those_that_the_disk_gains(store: Store) -> None:
    first = store.get("sources", KEY, writing(1 << 20))

    def link(folder: Path) -> None:
        os.link(first / "file", folder / "file")

    unused(store.get("prepared", OTHER, link), 31)
    done = clean(store.root)
    assert 1 << 20 <= done.size < 1.1 * (1 << 20)
    assert done.freed < 1 << 15, "its large file has another name"
    assert {kind.name: kind.removed for kind in done.kinds} == {"prepared": 1, "sources": 0}


@pytest.mark.parametrize(
    ("down_to", "gone"),
    [
        (100, []),
        (99, ["old"]),
        (60, ["old"]),
        (59, ["old", "middle"]),
        (30, ["old", "middle"]),
        (29, ["old", "middle"]),
    ],
)
def test_the_longest_unused_go_first(down_to: int, gone: list[str]) -> None:
    # a 40 bytes, b 30, c 30; "old" and "middle" share b, so the first frees a alone.
    entries = [entry("new", 30, c=30), entry("old", 10, a=40, b=30), entry("middle", 20, b=30)]
    found = chosen(entries, oldest=0, recent=25, down_to=down_to)
    assert [str(each.path) for each in found] == gone
