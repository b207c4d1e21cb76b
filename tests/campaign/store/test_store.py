"""Stores, crashes, full disks and clocks: the old state or the new one, never half of it."""

from __future__ import annotations

import errno
import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import filelock
import pytest

from cpuwheels.config.paths import Paths
from cpuwheels.core import sealed_entry
from cpuwheels.core.errors import DiskFullError, PublishError, StoreError
from cpuwheels.core.filesystem import write_atomic
from cpuwheels.core.process import run
from cpuwheels.core.sealed_entry import MANIFEST, check_entry
from cpuwheels.core.store import STALE_DAYS, Store
from cpuwheels.fetch.download import Pinned, fetch
from cpuwheels.index.bucket import Folder
from cpuwheels.index.publish import publish
from cpuwheels.kernels.workspace import Workspace
from cpuwheels.pipeline.dist import KEPT_LOGS, new_logs, put_in_place
from failing_disk import FailingDisk, failing
from index_publications import check_links, publication
from kernel_request import FIRST, kernel_request

DAY = 24 * 3600.0


def fill(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "empty").mkdir()
    (folder / "sub" / "a").write_text("a")
    (folder / "b").write_text("b")
    (folder / "link").symlink_to("b")


def is_whole(entry: Path) -> bool:
    return check_entry(entry) == [] and (entry / "sub" / "a").read_text() == "a" and (entry / "b").read_text() == "b"


def healed(store: Store, *, made: bool = True) -> None:
    """The entry is made again, and the next one finds it whole."""
    assert is_whole(store.get("kind", "key", fill if made else pytest.fail))
    assert is_whole(store.get("kind", "key", pytest.fail))
    left = {path.name for path in (store.root / "kind").iterdir()}
    assert left - {".checked-key"} == {"key"}


# Crashes

CRASH = """
import os, signal, sys
from pathlib import Path
from cpuwheels.core import sealed_entry, store

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def fill(folder):
    (folder / "half").write_text("half")
    if sys.argv[2] == "making":
        die()

if sys.argv[2] == "sealing":
    sealed_entry.write_atomic = die
if sys.argv[2] == "renaming":
    os.rename = die
if sys.argv[2] == "discarding":
    store.remove_tree = die
there = store.Store(Path(sys.argv[1]))
there.discard("kind", "key") if sys.argv[2] == "discarding" else there.get("kind", "key", fill)
"""


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("making", id="01-making"),
        pytest.param("sealing", id="02-sealing"),
        pytest.param("renaming", id="03-renaming"),
        pytest.param("discarding", id="04-discarding"),
    ],
)
def test_killed(store: Store, moment: str) -> None:
    if moment == "discarding":
        store.get("kind", "key", fill)
    done = subprocess.run([sys.executable, "-c", CRASH, store.root, moment], check=False)
    assert done.returncode == -signal.SIGKILL
    made = store.find("kind", "key") is None
    healed(store, made=made)


# Disks

DISKS = [
    pytest.param(errno.ENOSPC, DiskFullError, id="08-full"),
    pytest.param(errno.EDQUOT, DiskFullError, id="09-quota"),
    pytest.param(errno.EIO, StoreError, id="10-broken"),
    pytest.param(errno.EROFS, StoreError, id="11-read-only"),
    pytest.param(errno.EMFILE, StoreError, id="12-too-many-files"),
]


@pytest.mark.parametrize(("number", "expected"), DISKS)
def test_store_on_a_failing_disk(tmp_path: Path, number: int, expected: type[Exception]) -> None:
    """Each operation that writes fails once, and once for good from there on."""
    operations = 0
    for lasting in (False, True):
        for at in range(200):
            store = Store(tmp_path / f"{lasting}-{at}")
            store.get("kind", "other", fill)
            disk = FailingDisk(store.root, number, at, lasting=lasting)
            with failing(disk):
                try:
                    store.get("kind", "key", fill)
                except expected:
                    assert disk.refused
            assert is_whole(store.path("kind", "other"))
            store.get("kind", "key", fill)
            assert is_whole(store.path("kind", "key"))
            if not disk.refused:
                break
            operations += 1
    assert operations > 10


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        pytest.param(errno.ENOSPC, DiskFullError, id="13-full"),
        pytest.param(errno.EIO, StoreError, id="14-broken"),
        pytest.param(errno.EDQUOT, DiskFullError, id="72-quota"),
        pytest.param(errno.EROFS, StoreError, id="73-read-only"),
        pytest.param(errno.EMFILE, StoreError, id="74-too-many-files"),
    ],
)
def test_output_on_a_failing_disk(tmp_path: Path, number: int, expected: type[Exception]) -> None:
    for at in range(100):
        staged, output = tmp_path / f"{at}" / "staged", tmp_path / f"{at}" / "out"
        for folder, text in ((staged, "new"), (output, "old")):
            folder.mkdir(parents=True)
            (folder / "a-1.whl").write_text(text)
            (folder / "report.json").write_text(text)
        disk = FailingDisk(tmp_path, number, at)
        with failing(disk):
            try:
                put_in_place(staged, output)
            except expected:
                assert disk.refused
        assert (output / "a-1.whl").read_text() in {"old", "new"}
        if not disk.refused:
            assert (output / "a-1.whl").read_text() == "new"
            return
    pytest.fail("no end")


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(errno.ENOSPC, id="75-full"),
        pytest.param(errno.EDQUOT, id="76-quota"),
        pytest.param(errno.EIO, id="77-broken"),
        pytest.param(errno.EROFS, id="78-read-only"),
        pytest.param(errno.EMFILE, id="79-too-many-files"),
    ],
)
def test_index_on_a_failing_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Each write of a publication fails once: every link holds, and the next publication ends it."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # it may fail all the same, and takes most of the time
    root, first, second = tmp_path / "index", publication(tmp_path / "1", 1), publication(tmp_path / "2", 2)
    publish(Folder(root), first)
    shutil.copytree(root, tmp_path / "before")
    for at in range(0, 400, 1 if number == errno.ENOSPC else 7):
        disk = FailingDisk(root, number, at)
        with failing(disk):
            try:
                publish(Folder(root), second)
            except (PublishError, StoreError, DiskFullError):
                assert disk.refused
        assert check_links(root) > 0
        publish(Folder(root), second)
        assert check_links(root) > 0
        if not disk.refused:
            assert at > 50
            return
        shutil.rmtree(root)
        shutil.copytree(tmp_path / "before", root)
    pytest.fail("no end")


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(errno.ENOSPC, id="80-full"),
        pytest.param(errno.EDQUOT, id="81-quota"),
        pytest.param(errno.EIO, id="82-broken"),
        pytest.param(errno.EROFS, id="83-read-only"),
    ],
)
def test_download_to_a_failing_disk(tmp_path: Path, number: int) -> None:
    content = b"pinned" * 1000
    (tmp_path / "file.whl").write_bytes(content)
    pinned = Pinned("file", ((tmp_path / "file.whl").as_uri(),), hashlib.sha256(content).hexdigest(), len(content))
    for at in range(100):
        store = Store(tmp_path / f"store-{at}")
        store.root.mkdir()
        disk = FailingDisk(store.root, number, at)
        with failing(disk):
            try:
                fetch(pinned, store)
            except (StoreError, DiskFullError):
                assert disk.refused
        assert fetch(pinned, store).read_bytes() == content
        if not disk.refused:
            assert at > 5
            return
    pytest.fail("no end")


def test_15_file_on_a_full_disk(tmp_path: Path) -> None:
    (tmp_path / "page").write_text("old")
    for at in range(20):
        disk = FailingDisk(tmp_path, errno.ENOSPC, at)
        with failing(disk):
            try:
                write_atomic(tmp_path / "page", "new")
            except OSError:
                assert disk.refused
        assert (tmp_path / "page").read_text() in {"old", "new"}
        assert [path.name for path in tmp_path.iterdir()] == ["page"]
        if not disk.refused:
            return
    pytest.fail("no end")


def test_16_file_system_without_locks(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(StoreError) as caught:
        store.get("kind", "key", fill)
    assert "local disk" in caught.value.next_step


# Entries that somebody has changed


def write_through_another_name(entry: Path) -> None:
    os.link(entry / "b", entry.parent.parent / "name")
    (entry.parent.parent / "name").write_text("c")


def add_socket(entry: Path) -> None:
    here = Path.cwd()
    os.chdir(entry)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("s")
    finally:
        os.chdir(here)


def replace_by_folder(entry: Path) -> None:
    (entry / "b").unlink()
    (entry / "b").mkdir()


def replace_by_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replace_by_link(entry: Path) -> None:
    (entry / MANIFEST).rename(entry.parent.parent / "elsewhere")
    (entry / MANIFEST).symlink_to(entry.parent.parent / "elsewhere")


def change_manifest(entry: Path, change: str) -> None:
    said = json.loads((entry / MANIFEST).read_text())
    said["files"] = {"null": None, "list": [], "number": {"b": 5}}[change]
    (entry / MANIFEST).write_text(json.dumps(said))


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda entry: (entry / "b").write_text("B"), id="17-other-bytes"),
        pytest.param(lambda entry: os.truncate(entry / "b", 0), id="18-cut"),
        pytest.param(write_through_another_name, id="19-written-through-a-hard-link"),
        pytest.param(lambda entry: os.mkfifo(entry / "fifo"), id="20-fifo"),
        pytest.param(lambda entry: replace_by_fifo(entry / "b"), id="21-fifo-for-a-file"),
        pytest.param(add_socket, id="22-socket"),
        pytest.param(replace_by_folder, id="23-folder-for-a-file"),
        pytest.param(lambda entry: (entry / "sub" / "more").mkdir(), id="24-empty-folder"),
        pytest.param(lambda entry: (entry / "empty").rmdir(), id="25-empty-folder-gone"),
        pytest.param(lambda entry: (entry / "b").chmod(0o4755), id="26-setuid"),
        pytest.param(lambda entry: (entry / "b").chmod(0o755), id="27-executable"),
        pytest.param(lambda entry: replace_by_fifo(entry / MANIFEST), id="28-fifo-for-the-manifest"),
        pytest.param(replace_by_link, id="29-link-for-the-manifest"),
        pytest.param(lambda entry: (entry / MANIFEST).write_text("null"), id="30-manifest-null"),
        pytest.param(lambda entry: (entry / MANIFEST).write_text("[]"), id="31-manifest-list"),
        pytest.param(lambda entry: (entry / MANIFEST).write_text("[" * 200_000), id="32-manifest-deep"),
        pytest.param(lambda entry: (entry / MANIFEST).write_bytes(b"\xff\xfe{}"), id="33-manifest-no-text"),
        pytest.param(lambda entry: change_manifest(entry, "null"), id="34-files-null"),
        pytest.param(lambda entry: change_manifest(entry, "list"), id="35-files-list"),
        pytest.param(lambda entry: change_manifest(entry, "number"), id="36-digest-is-a-number"),
    ],
)
def test_changed_entry(store: Store, damage) -> None:
    damage(store.get("kind", "key", fill))
    assert store.find("kind", "key") is None
    healed(store)


def test_37_entry_with_setuid_of_its_own(store: Store) -> None:
    """Some of Debian's programs have it; they are no damage."""

    def make(folder: Path) -> None:
        (folder / "su").write_text("")
        (folder / "su").chmod(0o4755)

    entry = store.get("kind", "key", make)
    assert store.find("kind", "key") == entry
    assert stat.S_IMODE((entry / "su").stat().st_mode) == 0o4755


# Others, and clocks


def test_38_entry_that_is_replaced_while_it_is_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader saw a bit of the old entry and a bit of the new one; the new one stays, for it is in use."""
    store.get("kind", "key", fill)
    (store.path("kind", "key") / "b").write_text("damaged")
    digest, other = sealed_entry.entry_digest, Store(store.root)
    replaced: list[Path] = []

    def slow(path: str) -> str:
        if not replaced:
            replaced.append(Path())
            replaced.append(other.get("kind", "key", fill))
            return "read of the old one"
        return digest(path)

    monkeypatch.setattr(sealed_entry, "entry_digest", slow)
    inode = store.find("kind", "key")
    assert inode == replaced[1]
    healed(store, made=False)


def busy(root: Path, number: int, failed: multiprocessing.Queue[str]) -> None:
    """Do what builds do to a store that they share."""
    try:
        for turn in range(60):
            store = Store(root)
            store.remove_stale_work()
            with store.scratch("work") as scratch:
                (scratch / "a").write_text("a")
            entry = store.get("kind", f"{turn % 3}", fill)
            assert (entry / MANIFEST).is_file() or number
            store.find("kind", f"{(turn + number) % 3}")
            store.latest("kind")
            if turn % 7 == number:
                store.discard("kind", f"{turn % 3}")
    except Exception as error:  # noqa: BLE001  (told to the test)
        failed.put(repr(error))


def test_39_beside_other_builds(tmp_path: Path) -> None:
    """No error in hundreds of calls beside others that make, find, discard and clean up."""
    context = multiprocessing.get_context("spawn")
    failed: multiprocessing.Queue[str] = context.Queue()
    processes = [context.Process(target=busy, args=(tmp_path / "store", number, failed)) for number in range(4)]
    for process in processes:
        process.start()
    try:
        for process in processes:
            process.join(120)
    finally:
        for process in processes:
            process.kill()
    assert failed.empty(), failed.get()
    assert all(process.exitcode == 0 for process in processes)


def age(folder: Path, days: float) -> None:
    moment = time.time() - days * DAY
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (moment, moment))


def test_40_live_work_whose_folder_is_old(store: Store) -> None:
    """Its top folder has not changed for 15 days, and it is being worked in."""
    with store.working("kernels", "key") as work:
        (work / "build").mkdir()
        (work / "build" / "a.o").write_text("a")
        age(work, STALE_DAYS + 1)
        Store(store.root).remove_stale_work()
        assert (work / "build" / "a.o").read_text() == "a"


def test_41_work_that_changed_deep_inside(store: Store) -> None:
    work = store.work("kernels", "key")
    (work / "build").mkdir(parents=True)
    (work / "build" / "a.o").write_text("a")
    age(work, STALE_DAYS + 1)
    (work / "build" / "a.o").write_text("b")
    store.remove_stale_work()
    assert (work / "build" / "a.o").read_text() == "b"


@pytest.mark.parametrize("days", [pytest.param(-1, id="42-one-day-back"), pytest.param(20, id="43-20-days-on")])
def test_clock(store: Store, monkeypatch: pytest.MonkeyPatch, days: float) -> None:
    entry, now = store.get("kind", "key", fill), time.time
    with store.scratch("live") as scratch:
        monkeypatch.setattr(time, "time", lambda: now() + days * DAY)
        other = Store(store.root)
        other.remove_stale_work()
        assert scratch.is_dir()
        assert other.find("kind", "key") == entry
        assert other.latest("kind") == entry
    healed(store, made=False)


def test_84_clock_20_days_on_while_kernels_are_compiled(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder is emptied and filled again when a build begins, and is still the one that the build holds."""
    request, now = kernel_request(tmp_path), time.time
    with store.working("kernels", "key") as work:
        (work / "half").write_text("of an earlier build")
        Workspace(work, FIRST).prepare(request)
        monkeypatch.setattr(time, "time", lambda: now() + 20 * DAY)
        Store(store.root).remove_stale_work()
        assert (work / "prepared").is_file()
    Store(store.root).remove_stale_work()
    assert not work.exists()


def start(root: Path, failed: multiprocessing.Queue[str]) -> None:
    try:
        for _ in range(30):
            new_logs(Paths(root, root, root / "dist"), "x86")
    except Exception as error:  # noqa: BLE001  (told to the test)
        failed.put(repr(error))


def test_44_many_runs_that_start_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    failed: multiprocessing.Queue[str] = context.Queue()
    processes = [context.Process(target=start, args=(tmp_path, failed)) for _ in range(4)]
    for process in processes:
        process.start()
    try:
        for process in processes:
            process.join(120)
    finally:
        for process in processes:
            process.kill()
    assert failed.empty(), failed.get()
    assert KEPT_LOGS <= len(list((tmp_path / "dist/logs/x86").iterdir())) <= KEPT_LOGS + 4


def test_45_logs_that_are_removed_in_the_middle(tmp_path: Path) -> None:
    logs = new_logs(Paths(tmp_path, tmp_path, tmp_path / "dist"), "x86")
    run(["true"], log=logs / "one.log")
    for path in logs.iterdir():
        path.unlink()
    logs.rmdir()
    run(["true"], log=logs / "two.log")
    assert (logs / "two.log").is_file()


def test_46_lock_file_that_is_a_link(store: Store, tmp_path: Path) -> None:
    precious = tmp_path / "thesis.tex"
    precious.write_text("precious")
    (store.root / "locks").mkdir(parents=True)
    (store.root / "locks/kind-key.lock").symlink_to(precious)
    with pytest.raises(StoreError):
        store.get("kind", "key", fill)
    assert precious.read_text() == "precious"


def test_47_lock_that_another_holds(store: Store) -> None:
    """What another build makes is waited for, and taken."""
    (store.root / "locks").mkdir(parents=True)
    lock = filelock.FileLock(store.root / "locks/kind-key.lock")
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom cpuwheels.core.store import Store\nprint(1, flush=True)\n"
    )
    script += "print(Store(Path(sys.argv[1])).get('kind', 'key', lambda folder: (folder / 'a').touch()))"
    with lock:
        command = [sys.executable, "-c", script, store.root]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            try:
                assert other.stdout.readline() == "1\n"
                time.sleep(0.3)
                assert not store.path("kind", "key").exists()
                lock.release(force=True)
                assert other.wait(20) == 0
            finally:
                other.kill()
    assert check_entry(store.path("kind", "key")) == []
