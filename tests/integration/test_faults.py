"""Builds that are killed, squeezed and disturbed: the next run ends with the same bytes."""

from __future__ import annotations

import dataclasses
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from cpuwheels.core.trust import Trust
from killed_builds import (
    MORE,
    VICTIMS,
    descendants,
    forget_kernels,
    kernels,
    kill_at_random,
    named,
    sha256,
    start,
    survive,
    with_compiler_cache,
)
from tiny_project import Tiny, forget

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

TREES = Trust.LOCAL.value
KILLS, SEED = int(os.environ.get("KILLS", "100")), int(os.environ.get("KILLS_SEED", "20"))


def test_a_kill_of_each_part_and_the_same_bytes(tiny: Tiny, tmp_path: Path) -> None:
    here = dataclasses.replace(tiny, dist=tmp_path / "dist")
    tree = here.changed_tree(tmp_path / "kills")
    forget_kernels(here)  # those of other tests
    expected = sha256(here.build("--source", tree))
    made = kernels(here)
    forget_kernels(here)
    shutil.rmtree(here.dist)
    assert survive(here, tree, VICTIMS, expected=expected) == dict.fromkeys(VICTIMS, 1)
    assert made.items() <= kernels(here).items()


@pytest.mark.timeout(5400)
def test_a_hundred_kills_and_the_same_bytes(tiny: Tiny, tmp_path: Path) -> None:
    """With a compiler cache, so that it has its turn, too; each program is killed, and any process at any moment."""
    here = with_compiler_cache(tiny, tmp_path)
    tree = here.changed_tree(tmp_path / "kills")
    forget_kernels(here)  # those of other tests
    expected = sha256(here.build("--source", tree, "--compiler-cache", "off"))
    made = kernels(here)
    forget_kernels(here)
    shutil.rmtree(here.dist)
    programs = (*VICTIMS, *MORE)
    victims = [programs[number % len(programs)] for number in range(KILLS)]
    hit = survive(here, tree, victims, expected=expected, seed=SEED)
    print(f"killed: {dict(hit)}")
    assert hit.total() == KILLS
    assert hit.keys() == set(programs)
    assert made.items() <= kernels(here).items()


def test_kills_leave_nothing_wrong_in_the_compiler_cache(tiny: Tiny, tmp_path: Path) -> None:
    """What was built is forgotten after each kill, so the next build takes what the cache has from the killed one."""
    here = with_compiler_cache(tiny, tmp_path)
    tree = here.changed_tree(tmp_path / "kills")
    expected = sha256(here.build("--source", tree, "--compiler-cache", "off"))
    forget_kernels(here)
    shutil.rmtree(here.dist)
    victims = (*VICTIMS, "ccache")
    victims = [victims[number % len(victims)] for number in range(KILLS // 4)]
    survive(here, tree, victims, expected=expected, after_each=lambda: forget_kernels(here))


def test_two_builds_share_one_store(tiny: Tiny, tmp_path: Path) -> None:
    tree = tiny.changed_tree(tmp_path / "shared")
    places = [dataclasses.replace(tiny, dist=tmp_path / name) for name in ("one", "two")]
    processes = [
        subprocess.Popen(place.command("build", "x86", "--source", tree), stdout=subprocess.PIPE, text=True)
        for place in places
    ]
    wheels = [Path(process.communicate(timeout=600)[0].strip()) for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    first, second = map(sha256, wheels)
    assert first == second


def test_garbage_in_the_ledgers_is_passed_over(tiny: Tiny, tmp_path: Path) -> None:
    here = dataclasses.replace(tiny, dist=tmp_path / "dist")
    tree = here.changed_tree(tmp_path / "garbage")
    learned = here.cache / TREES / "measured" / "x86.tsv"
    learned.parent.mkdir(parents=True, exist_ok=True)
    learned.write_bytes(b"\xff\xfe\x00 garbage\n1\t2\n-5\t-5\tx.o\n")
    process = start(here, "--source", tree)
    assert kill_at_random(process, "cc1plus", random.Random(3))
    process.wait(120)
    for ledger in (here.cache / "work").glob(f"{TREES}-kernels-*/jobs.jsonl"):
        ledger.write_bytes(b'{"output": \n\x00\xff\n' + ledger.read_bytes() + b'{"output": "half')
    wheel = here.build("--source", tree)
    assert wheel.is_file()
    assert "CMakeFiles/_C.dir/csrc/cpu/ops.cpp.o" in learned.read_text()


def test_a_cap_that_is_too_small_is_refused_with_the_files_name(tiny: Tiny, tiny_wheel: Path, tmp_path: Path) -> None:
    """After a build its files' needs are known."""
    here = dataclasses.replace(tiny, dist=tmp_path / "dist")
    tree = here.changed_tree(tmp_path / "cap")
    matrix = here.root / "matrix.yaml"
    text = matrix.read_text()
    matrix.write_text(text.replace("worst_peak: 1G", "worst_peak: 100M"))
    try:
        done = here.run("build", "x86", "--source", tree, "--memory", "400M")
    finally:
        matrix.write_text(text)
    assert done.returncode != 0
    assert "csrc/cpu/ops.cpp.o alone needs" in done.stderr
    assert "allow at least" in done.stderr
    assert tiny_wheel.is_file()


def test_a_compiler_without_end_is_ended_below_the_cap(tiny: Tiny, tmp_path: Path) -> None:
    """Nothing is known of the file, and it takes whatever there is."""
    here = dataclasses.replace(tiny, dist=tmp_path / "dist")
    endless = (
        "template <int N> struct deep { using type = typename deep<N - 1>::type; char space[N]; };\n"
        "template <> struct deep<0> { using type = int; };\n"
        "#include <utility>\n"
        "template <int... I> int all(std::integer_sequence<int, I...>)\n"
        "{ return (0 + ... + int(sizeof(deep<I % 890>) + sizeof(std::make_index_sequence<I + 5000>))); }\n"
        "int use = all(std::make_integer_sequence<int, 20000>());\n"
    )
    tree = here.changed_tree(tmp_path / "endless", ops=endless)
    forget(here.cache, "measured")
    done = here.run("build", "x86", "--source", tree, "--memory", "1200M")
    assert done.returncode == 28, done.stderr
    assert "ops.cpp.o was killed for memory" in done.stderr
    assert "--memory" in done.stderr


def mount_small(folder: Path) -> bool:
    """Put a file system of 2 MiB on a folder, where this user and container may."""
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", folder]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_a_full_disk_is_said_and_loses_nothing(tiny: Tiny, tmp_path: Path) -> None:
    here = dataclasses.replace(tiny, dist=tmp_path / "dist")
    tree = here.changed_tree(tmp_path / "full")
    work = here.cache / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    if not mount_small(work):
        pytest.skip("a file system of its own cannot be mounted here")
    try:
        done = here.run("build", "x86", "--source", tree)
    finally:
        subprocess.run(["umount", work], check=True)
    assert done.returncode != 0
    assert "no space" in done.stderr.lower()
    assert not list(here.dist.rglob("*.whl"))
    assert here.build("--source", tree).is_file()


def test_signals_leave_no_process_behind(tiny: Tiny, tmp_path: Path) -> None:
    here = dataclasses.replace(tiny, dist=tmp_path / "dist")
    tree = here.changed_tree(tmp_path / "signals")
    process = start(here, "--source", tree)
    while not named(members := descendants(process), "cc1plus"):
        assert process.poll() is None, "the build ended before a compiler was seen"
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    gone, alive = psutil.wait_procs(members, timeout=30)
    assert gone
    assert alive == []
