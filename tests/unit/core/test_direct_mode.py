"""Lists of what was read: the latest first, and nothing that is damaged."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from pydantic import BaseModel

from cpuwheels.core.digests import entry_digest
from cpuwheels.core.direct_mode import ABSENT, DirectModeCache, content_digest, latest_reads
from cpuwheels.core.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.core.store import Store


class Files(BaseModel):
    files: tuple[str, ...]


A, B, C = (Files(files=(name,)) for name in "abc")


def cache(store: Store, beside: str = "one") -> DirectModeCache[Files]:
    return DirectModeCache(store, "reads", beside, Files)


def age(store: Store, *, reads: Files, seconds: int) -> None:
    """Make a kept list older."""
    for path in (store.root / "reads").glob("*/*.json"):
        if Files.model_validate_json(path.read_bytes()) == reads:
            now = path.stat().st_mtime - seconds
            os.utime(path, (now, now))


def test_the_latest_comes_first_and_keeping_again_makes_it_the_latest(store: Store) -> None:
    assert list(cache(store).known()) == []
    cache(store).keep(A)
    age(store, reads=A, seconds=20)
    cache(store).keep(B)
    age(store, reads=B, seconds=10)
    assert list(cache(store).known()) == [B, A]
    cache(store).keep(A)
    assert list(cache(store).known()) == [A, B]


def test_what_depends_on_something_else_is_apart(store: Store) -> None:
    cache(store).keep(A)
    assert list(cache(store, "other").known()) == []


@pytest.mark.parametrize("content", [b"", b"{", b'{"files": 3}', b"\xff"])
def test_a_damaged_list_is_passed_over(store: Store, content: bytes) -> None:
    cache(store).keep(A)
    (store.path("reads", "one") / "0.json").write_bytes(content)
    assert list(cache(store).known()) == [A]


def test_the_latest_of_all_each_once(store: Store) -> None:
    for number, (reads, beside) in enumerate([(A, "one"), (B, "one"), (C, "two"), (B, "two")]):
        cache(store, beside).keep(reads)
        path = max((store.root / "reads").glob("*/*.json"), key=lambda path: path.stat().st_mtime_ns)
        os.utime(path, (1000 + number, 1000 + number))
    assert latest_reads(store, "reads", Files, 5) == [B, C, A]
    assert latest_reads(store, "reads", Files, 2) == [B, C]


def test_a_store_that_cannot_be_written_is_told(store: Store) -> None:
    (store.root / "reads").parent.mkdir(parents=True, exist_ok=True)
    (store.root / "reads").write_text("in the way")
    with pytest.raises(StoreError):
        cache(store).keep(A)


def test_a_file_counts_by_content_and_a_gap_as_absent(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    (tmp_path / "dangling").symlink_to("nowhere")
    assert content_digest(tmp_path / "a") == entry_digest(tmp_path / "a")
    assert content_digest(tmp_path / "dangling") == entry_digest(tmp_path / "dangling")
    assert content_digest(tmp_path / "none") == content_digest(tmp_path) == ABSENT
