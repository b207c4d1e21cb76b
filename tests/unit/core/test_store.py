import errno
import json
import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from cpuwheels.core.digests import entry_digest
from cpuwheels.core.errors import DiskFullError, StoreError
from cpuwheels.core.filesystem import storage_errors, write_atomic
from cpuwheels.core.sealed_entry import MANIFEST, check_entry
from cpuwheels.core.store import STALE_DAYS, Store


def fill(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "a").write_text("a")
    (folder / "link").symlink_to("sub/a")


def test_an_entry_is_made_once(store: Store) -> None:
    calls = []

    def make(folder: Path) -> None:
        calls.append(folder)
        fill(folder)

    first = store.get("kind", "key", make)
    assert store.get("kind", "key", make) == first
    assert len(calls) == 1
    assert (first / "link").read_text() == "a"
    assert check_entry(first) == []


def test_a_failed_making_leaves_nothing(store: Store) -> None:
    def make(folder: Path) -> None:
        fill(folder)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store.get("kind", "key", make)
    assert store.find("kind", "key") is None
    assert list((store.root / "kind").iterdir()) == []


@pytest.mark.parametrize("write", [lambda path: path.write_text("{}"), lambda path: path.symlink_to("nowhere")])
def test_a_file_with_the_manifests_name_is_refused(store: Store, write) -> None:
    with pytest.raises(StoreError, match=rf"{MANIFEST} at the top") as raised:
        store.get("kind", "key", lambda folder: write(folder / MANIFEST))
    assert raised.value.next_step == f"take {MANIFEST} out of the source, or rename it there"
    assert list((store.root / "kind").iterdir()) == []


def test_a_file_with_the_manifests_name_further_down_is_like_any_other(store: Store) -> None:
    def make(folder: Path) -> None:
        fill(folder)
        (folder / "sub" / MANIFEST).write_text("a source's own")

    entry = store.get("kind", "key", make)
    assert check_entry(entry) == []
    assert store.get("kind", "key", pytest.fail) == entry
    assert (entry / "sub" / MANIFEST).read_text() == "a source's own"


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda entry: (entry / "sub" / "a").write_text("b"), "sub/a has other bytes"),
        (lambda entry: (entry / "sub" / "a").unlink(), "sub/a is missing"),
        (lambda entry: (entry / "more").write_text(""), "more is not in the manifest"),
        (lambda entry: (entry / MANIFEST).unlink(), "manifest unreadable"),
        (lambda entry: (entry / MANIFEST).write_text("{"), "manifest unreadable"),
    ],
)
def test_damage_is_found_and_fixed(store: Store, damage, fault: str) -> None:
    entry = store.get("kind", "key", fill)
    damage(entry)
    assert any(fault in found for found in check_entry(entry))
    assert check_entry(store.get("kind", "key", fill)) == []


def linked(store: Store) -> tuple[Path, Path]:
    first = store.get("kind", "first", fill)

    def link(folder: Path) -> None:
        (folder / "sub").mkdir()
        os.link(first / "sub" / "a", folder / "sub" / "a")
        (folder / "b").write_text("b")

    return first, store.get("kind", "second", link, of=first)


def test_second_names_have_the_digests_of_the_first(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = linked(store)
    assert check_entry(second) == []
    read: list[str] = []
    monkeypatch.setattr(
        "cpuwheels.core.sealed_entry.entry_digest", lambda path: read.append(path.rpartition("/")[2]) or "another"
    )
    assert check_entry(second, of=first) == ["b has other bytes"]
    assert read == ["b"]


def test_damage_under_a_second_name_is_found_where_the_first_is_checked(store: Store) -> None:
    first, second = linked(store)
    (second / "sub" / "a").write_text("A")
    assert check_entry(first) == ["sub/a has other bytes"]
    assert check_entry(second) == ["sub/a has other bytes"]
    # The first is made anew, so the second no longer has its bytes.
    assert store.find("kind", "first") is None
    first = store.get("kind", "first", fill)
    assert check_entry(second, of=first) == ["sub/a has other bytes"]


def test_an_entry_that_is_not_sealed_vouches_for_nothing(store: Store, tmp_path: Path) -> None:
    (tmp_path / "loose").mkdir()
    fill(tmp_path / "loose")
    entry = store.get(
        "kind", "key", lambda folder: os.link(tmp_path / "loose/sub/a", folder / "a"), of=tmp_path / "loose"
    )
    assert check_entry(entry, of=tmp_path / "loose") == []


def test_the_latest_whole_entry_is_found(store: Store) -> None:
    assert store.latest("kind") is None
    oldest, new, old = (store.get("kind", key, fill) for key in ("a", "b", "c"))
    os.utime(oldest, (1, 1))
    os.utime(old, (2, 2))
    assert store.latest("kind") == new
    (new / "sub" / "a").write_text("damaged")
    assert store.latest("kind") == old
    assert not new.exists()


def test_a_moved_store_is_made_again(store: Store, tmp_path: Path) -> None:
    store.get("kind", "key", fill)
    store.root.rename(tmp_path / "moved")
    assert Store(tmp_path / "moved").find("kind", "key") is None


def _slow(root: Path, order: Path) -> None:
    def make(folder: Path) -> None:
        with order.open("a") as stream:
            stream.write(f"{os.getpid()}\n")
        time.sleep(0.3)
        fill(folder)

    Store(root).get("kind", "key", make)


def test_two_processes_make_an_entry_once(store: Store, tmp_path: Path) -> None:
    order = tmp_path / "order"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_slow, args=(store.root, order)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert len(order.read_text().splitlines()) == 1


def _stuck(root: Path) -> None:
    def make(folder: Path) -> None:
        fill(folder)
        (root / "started").write_text("")
        time.sleep(60)

    Store(root).get("kind", "key", make)


def test_a_killed_making_is_not_seen_and_not_in_the_way(store: Store) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_stuck, args=(store.root,))
    process.start()
    deadline = time.monotonic() + 60
    while not (store.root / "started").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert store.find("kind", "key") is None
    assert check_entry(store.get("kind", "key", fill)) == []


def test_write_atomic_replaces_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    write_atomic(path, "one")
    write_atomic(path, b"two")
    assert path.read_text() == "two"
    assert [item.name for item in path.parent.iterdir()] == ["file"]


def test_a_block_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomic(path, "old")
    with pytest.raises(TypeError):
        write_atomic(path, ["neither text nor bytes"])  # type: ignore[arg-type]
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, DiskFullError),
        (errno.EDQUOT, DiskFullError),
        (errno.EACCES, StoreError),
        (errno.EROFS, StoreError),
    ],
)
def test_system_errors_become_messages(tmp_path: Path, number: int, expected: type[Exception]) -> None:
    with pytest.raises(expected) as raised, storage_errors(tmp_path):
        raise OSError(number, os.strerror(number), str(tmp_path / "file"))
    assert str(tmp_path) in str(raised.value)
    assert "next:" in str(raised.value)


def test_a_store_that_is_a_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    with pytest.raises(StoreError):
        Store(tmp_path / "cache").get("kind", "key", fill)


def test_what_was_found_whole_is_not_read_again_if_that_is_enough(tmp_path: Path) -> None:
    store = Store(tmp_path, check_once=True)
    entry = store.get("kind", "key", fill)
    assert store.find("kind", "key") == entry
    (entry / "more").write_text("not of the manifest")
    assert store.find("kind", "key") == entry
    assert Store(tmp_path).find("kind", "key") is None
    assert store.find("kind", "key") is None  # it is not there any more
    store.get("kind", "key", fill)
    store.discard("kind", "key")
    assert store.find("kind", "key") is None


def test_second_names_of_what_was_found_whole_are_not_read_if_that_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = linked(Store(tmp_path))
    store = Store(tmp_path, check_once=True)
    assert store.find("kind", "first") == first
    read: list[str] = []
    monkeypatch.setattr(
        "cpuwheels.core.sealed_entry.entry_digest", lambda path: read.append(path) or entry_digest(path)
    )
    assert store.find("kind", "second") == second
    assert read == [f"{second}/b"]
    (second / "b").write_text("B")
    assert Store(tmp_path, check_once=True).find("kind", "second") is None


def test_what_the_other_entry_has_lost_is_read(tmp_path: Path) -> None:
    first, second = linked(Store(tmp_path))
    store = Store(tmp_path, check_once=True)
    assert store.find("kind", "first") == first
    (first / "sub" / "a").unlink()
    assert store.find("kind", "second") == second


def test_manifest_names_kind_and_key(store: Store) -> None:
    entry = store.get("kind", "key", fill)
    manifest = json.loads((entry / MANIFEST).read_text())
    assert (manifest["kind"], manifest["key"]) == ("kind", "key")


def test_only_work_that_nobody_went_on_with_is_removed(store: Store) -> None:
    old, fresh = store.work("kernels", "old"), store.work("kernels", "fresh")
    for folder in (old, fresh):
        folder.mkdir(parents=True)
    long_ago = time.time() - (STALE_DAYS + 1) * 24 * 3600
    os.utime(old, (long_ago, long_ago))
    store.remove_stale_work()
    assert not old.exists()
    assert fresh.exists()
