"""What a run is said to have fetched and stored: each byte once, and none that it did not."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextvars import copy_context
from pathlib import Path

import pytest

from cpuwheels.core.store import Store
from cpuwheels.core.usage import GIT, Fetched, Usage, counted, current_usage

KEY, OTHER = "a" * 24, "b" * 24
BLOCK = 4096
"""Bytes; of a file that is a multiple of it, each usual file system takes as many, and those of a manifest at most."""

BLOCKS = 16 * BLOCK


def writing(**sizes: int) -> Callable[[Path], None]:
    def fill(folder: Path) -> None:
        for name, size in sizes.items():
            (folder / name).write_bytes(os.urandom(size))

    return fill


def linking(*files: Path) -> Callable[[Path], None]:
    def fill(folder: Path) -> None:
        for file in files:
            os.link(file, folder / file.name)

    return fill


def stored(usage: Usage) -> dict[str, int]:
    """Return what was stored, without the manifests."""
    return {kind: size // BLOCKS * BLOCKS for kind, size in usage.stored().items()}


def test_what_was_there_before_is_not_counted(store: Store) -> None:
    store.get("sources", KEY, writing(a=BLOCKS))
    with counted() as usage:
        store.get("sources", KEY, writing(a=BLOCKS))
        assert usage.stored() == {}
        store.get("sources", OTHER, writing(a=BLOCKS, b=2 * BLOCKS))
        store.get("onednn", KEY, writing(a=BLOCKS))
    store.get("acl", KEY, writing(a=BLOCKS))
    assert stored(usage) == {"sources": 3 * BLOCKS, "onednn": BLOCKS}


def test_a_file_of_several_entries_counts_once_and_one_of_an_older_entry_not_at_all(store: Store) -> None:
    old = store.get("sources", KEY, writing(old=BLOCKS))
    with counted() as usage:
        new = store.get("sources", OTHER, writing(new=BLOCKS))
        store.get("prepared", KEY, linking(old / "old", new / "new"))
    assert stored(usage) == {"sources": BLOCKS, "prepared": 0}


def test_names_in_a_folder_that_goes_with_the_run_do_not_keep_a_file_from_being_counted(
    store: Store, tmp_path: Path
) -> None:
    old = store.get("sources", KEY, writing(old=BLOCKS))
    with counted() as usage:
        new = store.get("sources", OTHER, writing(new=BLOCKS))
        (tmp_path / "work").mkdir()
        linking(new / "new", old / "old")(tmp_path / "work")
        assert stored(usage) == {"sources": 0}
        current_usage().temporary(tmp_path / "work")
        assert stored(usage) == {"sources": BLOCKS}


def test_files_of_environments_count_although_the_cache_of_uv_has_them(store: Store, tmp_path: Path) -> None:
    (tmp_path / "cached").write_bytes(os.urandom(BLOCKS))
    with counted() as usage:
        folder = store.root / "environments" / KEY
        folder.mkdir(parents=True)
        os.link(tmp_path / "cached", folder / "cached")
        current_usage().made(folder)
    assert stored(usage) == {"environments": BLOCKS}


def test_of_a_growing_folder_what_is_new_counts(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(os.urandom(BLOCKS))
    with counted() as usage:
        current_usage().growing(tmp_path, "compiler-cache")
        assert usage.stored() == {}
        current_usage().growing(tmp_path / "none", "compiler-cache")
        (tmp_path / "new").write_bytes(os.urandom(2 * BLOCKS))
        current_usage().growing(tmp_path, "compiler-cache")
    assert stored(usage) == {"compiler-cache": 2 * BLOCKS}
    assert usage.fetched() == Fetched({}, 0)


@pytest.mark.parametrize("by", [GIT, ""])
def test_packs_of_git_count_as_fetched_if_they_are_from_elsewhere(tmp_path: Path, by: str) -> None:
    with counted() as usage:
        current_usage().growing(tmp_path, GIT, fetched_by=by)
        for name in ("pack-1.pack", "pack-1.idx", "pack-1.rev", "0123"):
            (tmp_path / name).write_bytes(os.urandom(1000))
    assert usage.fetched().size == ({GIT: 2000} if by else {})
    assert usage.stored()[GIT] >= 4000


def test_threads_with_the_context_of_a_run_count_for_it() -> None:
    with counted() as usage:
        context = copy_context()
        threads = [
            threading.Thread(target=context.copy().run, args=(lambda: current_usage().received(10),)) for _ in range(4)
        ]
        threads.append(threading.Thread(target=lambda: current_usage().received(1000)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert usage.fetched() == Fetched({"http": 40}, 0)


@pytest.mark.parametrize(
    ("fetched", "sentence"),
    [
        (Fetched({}, 0), ""),
        (Fetched({"http": 2048}, 0), "fetched 2 KiB"),
        (Fetched({"http": 1 << 20, "uv and pip": 1 << 20}, 1), "fetched 2 MiB in 1 file"),
        (Fetched({"http": 1 << 20}, 3, ("torch",)), "fetched 1 MiB in 3 files (1 of them of unknown size)"),
        (Fetched({GIT: 1 << 20}, 0), "fetched 1 MiB with git"),
        (Fetched({GIT: 1 << 20, "http": 2 << 20}, 2), "fetched 2 MiB in 2 files and 1 MiB with git"),
    ],
)
def test_sentence_of_what_was_fetched(fetched: Fetched, sentence: str) -> None:
    assert fetched.as_sentence() == sentence


def test_sentence(store: Store) -> None:
    with counted() as usage:
        assert usage.as_sentence() == ""
        current_usage().received(1 << 20)
        current_usage().file()
        store.get("sources", KEY, writing(a=1 << 20))
        assert usage.as_sentence().startswith("fetched 1 MiB in 1 file; added 1")
        assert usage.as_sentence().endswith(" MiB to the stores")
        store.get("prepared", KEY, writing(a=3 << 20))
    assert ", the most of it prepared (3" in usage.as_sentence()
