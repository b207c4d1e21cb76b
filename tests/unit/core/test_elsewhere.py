"""Whom the stores of a run ask."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from cpuwheels.core.concurrency import run_parallel
from cpuwheels.core.elsewhere import Origin, elsewhere, taken_from, vouched
from cpuwheels.core.errors import StoreError
from cpuwheels.core.sealed_entry import MANIFEST, check_entry, sealed_origin
from cpuwheels.core.store import Store
from cpuwheels.core.trust import Trust


class Other:
    """Somebody who has one entry."""

    kinds = frozenset({"kernels"})
    arguments = ()

    def __init__(self) -> None:
        self.asked: list[tuple[str, Trust]] = []
        self.has, self.name = True, "file"

    def fill(self, kind: str, key: str, trust: Trust, folder: Path) -> Origin | None:
        assert (kind, list(folder.iterdir())) == ("kernels", [])
        self.asked.append((key, trust))
        if not self.has:
            return None
        (folder / self.name).write_text("theirs")
        return Origin("there", "a" * 64, "key")

    def replenish(self, kind: str, key: str, trust: Trust, folder: Path) -> None:
        folder.mkdir(parents=True)
        (folder / f"{kind}-{key}-{trust.name}").write_text("")


def test_it_lasts_as_long_as_the_block_and_goes_to_threads() -> None:
    other = Other()
    with taken_from(other):
        assert elsewhere() is other
        meet = threading.Barrier(2)

        def look() -> object:
            meet.wait(10)
            return elsewhere()

        assert run_parallel([look, look], 2) == [other, other]
        with taken_from(None):
            assert elsewhere() is None
    assert elsewhere() is None


@pytest.mark.parametrize(
    ("kind", "trust", "whose"),
    [
        ("kernels", Trust.RELEASE, (Trust.RELEASE,)),
        ("kernels", Trust.COMMIT, (Trust.COMMIT, Trust.RELEASE)),
        ("kernels", Trust.LOCAL, (Trust.RELEASE,)),
        ("onednn", Trust.COMMIT, (Trust.RELEASE,)),
    ],
)
def test_who_vouches_for_what_is_taken(kind: str, trust: Trust, whose: tuple[Trust, ...]) -> None:
    assert vouched(kind, trust) == whose


def test_an_entry_keeps_where_it_came_from(store: Store) -> None:
    other = Other()
    with taken_from(other):
        entry = store.find("kernels", "key")
        assert store.get("kernels", "key", lambda _: pytest.fail("it is there")) == entry
    assert entry
    assert other.asked == [("key", Trust.RELEASE)]
    assert sealed_origin(entry) == Origin("there", "a" * 64, "key")
    assert check_entry(entry) == []


def test_a_damaged_one_is_asked_for_again(store: Store) -> None:
    other = Other()
    entry = store.get("kernels", "key", lambda folder: (folder / "file").write_text("ours"))
    (entry / "file").write_text("damaged")
    with taken_from(other):
        assert store.find("kernels", "key") == entry
    assert (entry / "file").read_text() == "theirs"


def test_what_nobody_has_is_made(store: Store) -> None:
    other = Other()
    other.has = False
    with taken_from(other):
        assert store.find("kernels", "key") is None
        entry = store.get("kernels", "key", lambda folder: (folder / "file").write_text("ours"))
    assert sealed_origin(entry) is None
    assert sorted(path.name for path in entry.iterdir()) == [MANIFEST, "file"]
    assert other.asked == [("key", Trust.RELEASE)] * 2


def test_other_kinds_are_not_asked_for(store: Store) -> None:
    other = Other()
    with taken_from(other):
        assert store.find("sources", "key") is None
        store.get("sources", "key", lambda folder: (folder / "file").write_text("ours"))
    assert other.asked == []


def test_the_manifest_is_not_taken(store: Store) -> None:
    other = Other()
    other.name = MANIFEST
    with taken_from(other), pytest.raises(StoreError):
        store.find("kernels", "key")
    assert list((store.root / "kernels").iterdir()) == []


def test_a_folder_that_grows_gets_what_all_have(store: Store) -> None:
    store.replenish("reads", "key")
    assert not (store.root / "reads").exists()
    with taken_from(Other()):
        store.trusting(Trust.COMMIT).replenish("reads", "key", "below")
    assert (store.root / "from-commits" / "reads" / "key" / "below" / "reads-key-COMMIT").is_file()
    assert (store.root / "reads" / "key" / "below" / "reads-key-RELEASE").is_file()


def test_an_origin_that_is_none_is_not_believed(store: Store) -> None:
    entry = store.get("kernels", "key", lambda folder: (folder / "file").write_text("ours"))
    text = (entry / MANIFEST).read_text()
    (entry / MANIFEST).write_text(text.replace("{", '{"origin": {"more": 1}, ', 1))
    assert sealed_origin(entry) is None
    assert check_entry(entry)
    assert sealed_origin(store.root / "nothing") is None
