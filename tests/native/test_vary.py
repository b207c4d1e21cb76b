"""The library that programs of a second build load: another time, another order of files, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from layout import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it is Linux's")

AHEAD = 230_000_000

Run = Callable[..., str]


@pytest.fixture(scope="module")
def library(c_compiler: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    strict = ["-std=c17", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    sources = sorted((ROOT / "csrc" / "vary").glob("*.c"))
    subprocess.run([c_compiler, *strict, "-o", folder / "libvary.so", *sources, "-ldl", "-pthread"], check=True)
    return folder / "libvary.so"


@pytest.fixture
def run(library: Path) -> Run:
    def run(*command: str | Path, ahead: int = 0, order: int = 0, **more: str) -> str:
        settings = {"CPUWHEELS_VARY_SECONDS": ahead, "CPUWHEELS_VARY_ORDER": order}
        env = (
            os.environ | {"LD_PRELOAD": str(library)} | {name: str(value) for name, value in settings.items() if value}
        )
        done = subprocess.run(command, env=env | more, check=False, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return done.stdout

    return run


def python(run: Run, text: str, **options: int) -> list[str]:
    return run(sys.executable, "-c", text, **options).split()


def test_without_settings_nothing_is_different(run: Run, tmp_path: Path) -> None:
    for name in "abcdefgh":
        (tmp_path / name).touch()
    assert abs(float(run("date", "+%s")) - time.time()) < 60
    assert python(run, f"import os; print(*os.listdir({str(tmp_path)!r}))") == os.listdir(tmp_path)  # noqa: PTH208


CLOCKS = """
import ctypes, datetime, time
libc = ctypes.CDLL(None)
class Pair(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("rest", ctypes.c_long)]
day, utc = Pair(), Pair()
libc.gettimeofday(ctypes.byref(day), None)
libc.timespec_get(ctypes.byref(utc), 1)
libc.time.restype = ctypes.c_long
print(time.time(), time.clock_gettime(time.CLOCK_REALTIME), libc.time(None), day.seconds, utc.seconds)
print(datetime.datetime.now().timestamp())
print(time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME))
"""


def test_every_clock_of_the_day_is_ahead_and_no_other(run: Run) -> None:
    *days, monotonic, since_start = map(float, python(run, CLOCKS, ahead=AHEAD))
    assert len(days) == 6
    assert all(abs(day - time.time() - AHEAD) < 60 for day in days)
    assert abs(monotonic - time.monotonic()) < 60
    assert abs(since_start - time.clock_gettime(time.CLOCK_BOOTTIME)) < 60


def test_children_see_the_same(run: Run) -> None:
    year = time.gmtime(time.time() + AHEAD).tm_year
    assert (
        run("sh", "-c", "date +%Y; python3 -c 'import time; print(time.gmtime().tm_year)'").split() != [str(year)] * 2
    )
    assert run("sh", "-c", "date +%Y", ahead=AHEAD).strip() == str(year)


def test_files_have_the_times_of_the_kernel(run: Run, tmp_path: Path) -> None:
    run("touch", tmp_path / "new", ahead=AHEAD)
    run("cp", tmp_path / "new", tmp_path / "copy", ahead=AHEAD)
    assert abs((tmp_path / "copy").stat().st_mtime - time.time()) < 60


WAITS = """
import ctypes, time
libc = ctypes.CDLL(None)
class Moment(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("rest", ctypes.c_long)]
def soon(clock):
    now = time.clock_gettime(clock) + 0.2
    return Moment(int(now), int(now % 1 * 1e9))
memory = [ctypes.create_string_buffer(128) for _ in range(4)]
semaphore, mutex, held, condition = memory
libc.sem_init(semaphore, 0, 0)
for one in (mutex, held):
    libc.pthread_mutex_init(one, None)
    libc.pthread_mutex_lock(one)
libc.pthread_cond_init(condition, None)
attributes, monotonic = ctypes.create_string_buffer(64), ctypes.create_string_buffer(128)
libc.pthread_condattr_init(attributes)
libc.pthread_condattr_setclock(attributes, time.CLOCK_MONOTONIC)
libc.pthread_cond_init(monotonic, attributes)
for call in (
    lambda: libc.sem_timedwait(semaphore, ctypes.byref(soon(time.CLOCK_REALTIME))),
    lambda: libc.pthread_mutex_timedlock(held, ctypes.byref(soon(time.CLOCK_REALTIME))),
    lambda: libc.pthread_cond_timedwait(condition, mutex, ctypes.byref(soon(time.CLOCK_REALTIME))),
    lambda: libc.pthread_cond_timedwait(monotonic, mutex, ctypes.byref(soon(time.CLOCK_MONOTONIC))),
):
    began = time.monotonic()
    result = call()
    print(result, time.monotonic() - began)
"""


@pytest.mark.parametrize("ahead", [0, AHEAD])
def test_who_waits_until_a_moment_waits_as_long_as_he_should(run: Run, ahead: int) -> None:
    found = python(run, WAITS, ahead=ahead)
    results, waited = found[::2], [float(part) for part in found[1::2]]
    assert len(results) == 4
    assert all(result != "0" for result in results), "each ran out of time"
    assert all(0.15 < seconds < 30 for seconds in waited), waited


def test_a_thread_may_ask_for_the_true_time(run: Run) -> None:
    text = """
import ctypes, threading, time
from cpuwheels.core.environ import use_true_clock
def other():
    use_true_clock()
    print(time.time())
print(time.time())
thread = threading.Thread(target=other)
thread.start()
thread.join()
print(time.time())
"""
    before, within, after = map(float, python(run, text, ahead=AHEAD))
    assert abs(within - time.time()) < 60
    assert all(abs(moment - AHEAD - time.time()) < 60 for moment in (before, after))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(200):
        (tmp_path / f"file-{number}").touch()
    (tmp_path / "folder").mkdir()
    return tmp_path


def listed(run: Run, folder: Path, order: int) -> list[str]:
    return run("ls", "-U", folder, order=order).split()


def test_another_order_of_the_same_files(run: Run, folder: Path) -> None:
    own = os.listdir(folder)  # noqa: PTH208
    first, again, other = (listed(run, folder, order) for order in (1, 1, 2))
    assert first == again != other
    assert sorted(first) == sorted(other) == sorted(own)
    assert own not in (first, other)
    assert python(run, f"import os; print(*os.listdir({str(folder)!r}))", order=1) == first
    assert python(run, f"import os; print(*(e.name for e in os.scandir({str(folder)!r})))", order=1) == first


def test_kinds_of_files_are_as_they_are(run: Run, folder: Path) -> None:
    text = f"import os; print(*(e.name for e in os.scandir({str(folder)!r}) if e.is_dir(follow_symlinks=False)))"
    assert python(run, text, order=5) == ["folder"]
    assert run("find", folder, "-type", "d", order=5).split() == [str(folder), str(folder / "folder")]


PLACES = """
import ctypes, sys
libc = ctypes.CDLL(None)
class Entry(ctypes.Structure):
    _fields_ = [("node", ctypes.c_ulong), ("off", ctypes.c_long), ("length", ctypes.c_ushort), ("kind", ctypes.c_ubyte),
                ("name", ctypes.c_char * 256)]
for name in ("opendir", "readdir"):
    getattr(libc, name).restype = ctypes.c_void_p
libc.telldir.restype = ctypes.c_long
stream = ctypes.c_void_p(libc.opendir(sys.argv[1].encode()))
def next():
    entry = libc.readdir(stream)
    return Entry.from_address(entry).name.decode() if entry else None
first = [next() for _ in range(3)]
place = ctypes.c_long(libc.telldir(stream))
rest = [next() for _ in range(2)]
libc.seekdir(stream, place)
assert rest == [next() for _ in range(2)]
libc.rewinddir(stream)
assert first == [next() for _ in range(3)]
count = 3
while next():
    count += 1
assert next() is None
assert libc.closedir(stream) == 0
print(count)
"""


@pytest.mark.parametrize("order", [0, 1])
def test_places_in_a_folder(run: Run, folder: Path, order: int) -> None:
    assert run(sys.executable, "-c", PLACES, folder, order=order).split() == ["203"]


def test_a_new_file_is_seen_when_the_folder_is_opened_again(run: Run, folder: Path) -> None:
    text = f"import os, pathlib as p; f = p.Path({str(folder)!r}); a = os.listdir(f); (f / 'new').touch()"
    assert python(run, f"{text}; print(*set(os.listdir(f)) - set(a))", order=1) == ["new"]


def test_folders_are_forgotten_when_they_are_closed(run: Run, folder: Path) -> None:
    text = f"""
import os, resource
for _ in range(300):
    os.listdir({str(folder)!r})
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(3000):
    os.listdir({str(folder)!r})
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    (grown,) = python(run, text, order=1)
    assert int(grown) < 20_000, "KiB; 200 entries of 280 bytes, 3,000 times, are 160,000"
