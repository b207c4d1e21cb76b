"""What was built from a source that nobody pinned is never offered to a release."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import BaseModel

from cpuwheels.core.direct_mode import DirectModeCache, latest_reads
from cpuwheels.core.store import Store
from cpuwheels.core.trust import NAMESPACED, Trust

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OTHERS = [Trust.COMMIT, Trust.LOCAL]


class Files(BaseModel):
    files: tuple[str, ...]


def fill(text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "file").write_text(text) and None


@pytest.mark.parametrize("kind", sorted(NAMESPACED))
@pytest.mark.parametrize("trust", OTHERS)
def test_an_evil_entry_is_not_offered_to_those_who_are_trusted_more(store: Store, trust: Trust, kind: str) -> None:
    evil = store.trusting(trust).get(kind, "key", fill("evil"))
    assert store.find(kind, "key") is None
    assert not store.has(kind, "key")
    good = store.get(kind, "key", fill("good"))
    assert (good / "file").read_text() == "good"
    assert good == store.root / kind / "key"  # where releases' entries have always been
    assert evil == store.root / trust.value / kind / "key"


@pytest.mark.parametrize("trust", OTHERS)
def test_neither_is_offered_to_the_other(store: Store, trust: Trust) -> None:
    (other,) = set(OTHERS) - {trust}
    store.trusting(trust).get("kernels", "key", fill("evil"))
    assert store.trusting(other).find("kernels", "key") is None


@pytest.mark.parametrize("trust", OTHERS)
def test_a_release_is_offered_to_all(store: Store, trust: Trust) -> None:
    good = store.get("kernels", "key", fill("good"))
    other = store.trusting(trust)
    assert other.find("kernels", "key") == good
    assert other.has("kernels", "key")
    assert other.get("kernels", "key", lambda _: pytest.fail("it is there")) == good
    (good / "file").write_text("damaged")
    assert other.find("kernels", "key") is None


def test_a_commit_is_offered_to_the_next(store: Store) -> None:
    entry = store.trusting(Trust.COMMIT).get("kernels", "key", fill("one"))
    assert Store(store.root, trust=Trust.COMMIT).find("kernels", "key") == entry


def test_what_runs_nothing_of_a_source_is_shared(store: Store) -> None:
    entry = store.trusting(Trust.COMMIT).get("downloads", "key", fill("pinned"))
    assert store.find("downloads", "key") == entry


def test_unfinished_work_is_not_gone_on_with_by_others(store: Store) -> None:
    assert len({store.trusting(trust).work("kernels", "key") for trust in Trust}) == len(Trust)
    assert store.work("kernels", "key") == store.root / "work" / "kernels-key"
    assert store.trusting(Trust.COMMIT).work("acl", "key") == store.work("acl", "key")
    assert all(store.trusting(trust).work("kernels", "key").parent == store.root / "work" for trust in Trust)


def test_what_was_checked_once_stays_checked(store: Store) -> None:
    once = Store(store.root, check_once=True)
    entry = once.get("kernels", "key", fill("good"))
    assert once.find("kernels", "key") == entry
    (entry / "file").unlink()  # not seen: it was checked a moment ago
    assert once.trusting(Trust.COMMIT).find("kernels", "key") == entry
    assert once.trusting(Trust.RELEASE) is once


@pytest.mark.parametrize("trust", OTHERS)
def test_forged_reads_are_not_offered_to_a_release(store: Store, trust: Trust) -> None:
    good, evil = Files(files=("good",)), Files(files=())
    other = store.trusting(trust)
    DirectModeCache(store, "reads", "beside", Files).keep(good)
    DirectModeCache(other, "reads", "beside", Files).keep(evil)
    assert list(DirectModeCache(store, "reads", "beside", Files).known()) == [good]
    assert sorted(DirectModeCache(other, "reads", "beside", Files).known(), key=str) == sorted([good, evil], key=str)
    assert latest_reads(store, "reads", Files, 3) == [good]
    assert len(latest_reads(other, "reads", Files, 3)) == 2


def test_all_of_a_kind_can_be_counted(store: Store) -> None:
    assert len(store.everywhere("kernels")) == len(Trust)
    assert store.everywhere("downloads") == [store.root / "downloads"]
