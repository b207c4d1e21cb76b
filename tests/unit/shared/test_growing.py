"""What every build adds to: lists of what compilers read, and tables of costs."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cpuwheels.core.digests import text_digest
from cpuwheels.core.direct_mode import DirectModeCache
from cpuwheels.core.elsewhere import taken_from
from cpuwheels.core.store import Store
from cpuwheels.core.trust import Trust
from cpuwheels.kernels.depfile import Reads
from cpuwheels.kernels.memory.costs import Cost, read_costs, write_costs
from cpuwheels.kernels.onednn_pruning import read_unused, write_unused
from cpuwheels.shared import growing, pull
from cpuwheels.shared.folder import Folder
from cpuwheels.shared.growing import add_missing, put_together
from shared_stores import BESIDE, Open, other_store, reader, share_all, states

A, B, C = (Reads(files=(f"csrc/{name}.cpp",), folders=("csrc",)) for name in "abc")


def lists(store: Store) -> DirectModeCache[Reads]:
    return DirectModeCache(store, "reads", BESIDE, Reads)


def test_lists_of_all_machines_are_put_together(store: Store, tmp_path: Path, opened: Open, told: list[str]) -> None:
    other, third = other_store(tmp_path / "other"), other_store(tmp_path / "third")
    lists(store).keep(A)
    lists(other).keep(B)
    assert states(share_all(store, opened())) == {f"reads/{BESIDE}": "grown"}
    assert states(share_all(other, opened())) == {f"reads/{BESIDE}": "grown"}
    assert states(share_all(store, opened())) == {f"reads/{BESIDE}": "there"}
    assert len(list(opened().objects())) == 2, "what was there before is gone"
    lists(third).keep(C)
    with taken_from(reader(opened(), told)):
        assert {one.files for one in lists(third).known()} == {A.files, B.files, C.files}
        assert lists(third).known()
    assert {one.files for one in lists(third).known()} == {A.files, B.files, C.files}
    assert told == []


def test_those_of_commits_are_for_commits(store: Store, tmp_path: Path, told: list[str]) -> None:
    place = Folder(tmp_path / "shared")
    lists(store).keep(A)
    lists(store.trusting(Trust.COMMIT)).keep(B)
    lists(store.trusting(Trust.LOCAL)).keep(C)
    share_all(store, place)
    for trust, known in ((Trust.RELEASE, {A.files}), (Trust.COMMIT, {A.files, B.files}), (Trust.LOCAL, {A.files})):
        with taken_from(reader(place, told)):
            assert {one.files for one in lists(other_store(tmp_path / trust.name, trust)).known()} == known


def test_two_writers_at_the_same_moment_lose_nothing(store: Store, tmp_path: Path, opened: Open) -> None:
    stores = [other_store(tmp_path / f"writer {number}") for number in range(4)]
    for number, one in enumerate(stores):
        lists(one).keep(Reads(files=(f"csrc/{number}.cpp",), folders=()))
    threads = [threading.Thread(target=share_all, args=(one, opened())) for one in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with taken_from(reader(opened(), [])):
        assert {one.files[0] for one in lists(store).known()} == {f"csrc/{number}.cpp" for number in range(4)}


class Growing(Folder):
    """A place in which somebody else writes just when a description was read, and its object not yet."""

    def __init__(self, path: Path, store: Store) -> None:
        super().__init__(path)
        self._store, self.grown = store, 0

    def grow(self) -> None:
        self.grown += 1
        lists(self._store).keep(Reads(files=(f"csrc/new{self.grown}.cpp",), folders=()))
        share_all(self._store, Folder(self._path))

    def stream(self, path: str, size: int) -> Iterator[bytes]:
        if not self.grown:
            self.grow()
        return super().stream(path, size)


def test_who_reads_meanwhile_reads_again(store: Store, tmp_path: Path, told: list[str]) -> None:
    lists(store).keep(A)
    share_all(store, Folder(tmp_path / "shared"))
    with taken_from(reader(Growing(tmp_path / "shared", store), told)):
        found = {one.files[0] for one in lists(other_store(tmp_path / "other")).known()}
    assert found == {"csrc/a.cpp", "csrc/new1.cpp"}
    assert told == []


def test_who_writes_meanwhile_loses_nothing(store: Store, tmp_path: Path) -> None:
    lists(store).keep(A)
    share_all(store, Folder(tmp_path / "shared"))
    other = other_store(tmp_path / "other")
    lists(other).keep(B)
    assert states(share_all(other, Growing(tmp_path / "shared", store))) == {f"reads/{BESIDE}": "grown"}
    with taken_from(reader(Folder(tmp_path / "shared"), [])):
        found = {one.files[0] for one in lists(other_store(tmp_path / "third")).known()}
    assert found == {"csrc/a.cpp", "csrc/b.cpp", "csrc/new1.cpp"}


def test_what_grew_meanwhile_is_asked_for_again(
    store: Store, tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, other = Folder(tmp_path / "shared"), other_store(tmp_path / "other")
    lists(store).keep(A)
    share_all(store, place)
    monkeypatch.setattr(pull, "MISS_SECONDS", 0.0)
    with taken_from(reader(place, told)):
        assert len(list(lists(other).known())) == 1
        lists(store).keep(B)
        share_all(store, place)
        assert len(list(lists(other).known())) == 2


def test_only_the_latest_lists_are_shared(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "MOST", 2)
    place, other = Folder(tmp_path / "shared"), other_store(tmp_path / "other")
    for age, one in enumerate((A, B, C)):
        lists(store).keep(one)
        (made,) = (
            path for path in (store.root / "reads" / BESIDE).iterdir() if one.files[0] in path.read_text("utf-8")
        )
        os.utime(made, (1000 - age, 1000 - age))
    share_all(store, place)
    with taken_from(reader(place, [])):
        assert {one.files for one in lists(other).known()} == {A.files, B.files}


class TestTables:
    @pytest.fixture
    def folders(self, tmp_path: Path) -> tuple[Path, Path, Path]:
        found = tmp_path / "ours", tmp_path / "theirs", tmp_path / "both"
        for folder in found:
            folder.mkdir()
        return found

    def test_newer_rows_count_and_others_stay(self, folders: tuple[Path, Path, Path]) -> None:
        ours, theirs, both = folders
        write_costs(theirs / "x86.tsv", {"a.o": Cost(1, 10), "b.o": Cost(2, 20)})
        write_costs(theirs / "arm.tsv", {"c.o": Cost(3, 30)})
        write_costs(ours / "x86.tsv", {"b.o": Cost(4, 40), "d.o": Cost(5, 50)})
        assert put_together("measured", ours, theirs, both)
        assert read_costs(both / "x86.tsv") == {"a.o": Cost(1, 10), "b.o": Cost(4, 40), "d.o": Cost(5, 50)}
        assert read_costs(both / "arm.tsv") == {"c.o": Cost(3, 30)}

    def test_a_file_is_unused_if_both_say_so(self, folders: tuple[Path, Path, Path]) -> None:
        ours, theirs, both = folders
        write_unused(theirs / "onednn-x86_64-ab.txt", ["a.cpp", "b.cpp"])
        write_unused(ours / "onednn-x86_64-ab.txt", ["b.cpp", "c.cpp"])
        write_unused(ours / "onednn-aarch64-ab.txt", ["d.cpp"])
        assert put_together("measured", ours, theirs, both)
        assert read_unused(both / "onednn-x86_64-ab.txt") == ["b.cpp"]
        assert read_unused(both / "onednn-aarch64-ab.txt") == ["d.cpp"]

    def test_nothing_new_is_nothing_to_write(self, folders: tuple[Path, Path, Path]) -> None:
        ours, theirs, both = folders
        write_costs(theirs / "x86.tsv", {"a.o": Cost(1, 10), "b.o": Cost(2, 20)})
        write_costs(ours / "x86.tsv", {"a.o": Cost(1, 10)})
        assert not put_together("measured", ours, theirs, both)

    def test_there_need_be_nothing_of_ones_own(self, folders: tuple[Path, Path, Path], tmp_path: Path) -> None:
        _, theirs, both = folders
        write_costs(theirs / "x86.tsv", {"a.o": Cost(1, 10)})
        assert not put_together("measured", tmp_path / "none", theirs, both)

    def test_other_files_are_neither_shared_nor_taken(self, folders: tuple[Path, Path, Path], tmp_path: Path) -> None:
        ours, theirs, both = folders
        for folder in (ours, theirs):
            (folder / "notes.md").write_text("")
            (folder / "tables").mkdir()
            (folder / "linked.tsv").symlink_to(tmp_path / "secret")
        (tmp_path / "secret").write_text("1\t2\tsecret\n")
        put_together("measured", ours, theirs, both)
        add_missing("measured", theirs, tmp_path / "here")
        assert list(both.iterdir()) == []
        assert not (tmp_path / "here").exists()

    def test_shared_tables_lie_apart_and_are_replaced(self, store: Store, tmp_path: Path, opened: Open) -> None:
        write_costs(store.root / "measured" / "x86.tsv", {"a.o": Cost(1, 10)})
        share_all(store, opened())
        other = other_store(tmp_path / "other")
        write_costs(other.root / "measured" / "x86.tsv", {"a.o": Cost(7, 70)})
        write_costs(other.root / "measured" / "tables" / "x86.tsv", {"old.o": Cost(9, 90)})
        with taken_from(reader(opened(), [])):
            other.replenish("measured", "tables")
        assert read_costs(other.root / "measured" / "x86.tsv") == {"a.o": Cost(7, 70)}
        assert read_costs(other.root / "measured" / "tables" / "x86.tsv") == {"a.o": Cost(1, 10)}


def test_a_list_has_the_name_of_its_text(tmp_path: Path) -> None:
    """Whoever signs could otherwise replace a list that a build here has made."""
    found, here = tmp_path / "found", tmp_path / "here"
    found.mkdir()
    text = A.model_dump_json()
    for name in (f"{text_digest(text)[:16]}.json", "0" * 16 + ".json", "evil.json"):
        (found / name).write_text(text)
    add_missing("reads", found, here)
    assert [path.name for path in here.iterdir()] == [f"{text_digest(text)[:16]}.json"]
