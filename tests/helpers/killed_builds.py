"""Builds of the tiny project of which a process is killed at a random moment, and what has to be true after that."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from cpuwheels.core.sealed_entry import MANIFEST, check_entry
from cpuwheels.core.trust import Trust
from cpuwheels.pipeline.built_wheel import RECORD, read_built
from tiny_project import forget

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tiny_project import Tiny

WHOLE, SUPERVISOR, ANY = "the whole build", "supervisor", "any process"
VICTIMS = (WHOLE, SUPERVISOR, "bwrap", "ninja", "memgate", "cc1plus")
"""Programs of a build: cpuwheels itself, what it starts commands with, and others by their names."""

MORE = ("ccache", "cmake", "ld", "x86_64-linux-gnu-g++-15", ANY, ANY, ANY)
BUILD_SECONDS = 400.0
"""In which a build ends, whatever was killed of it; many times as long as one takes."""

GONE_SECONDS = 15.0
"""In which everything has to be over after a kill."""


def forget_kernels(tiny: Tiny) -> None:
    forget(tiny.cache, "kernels", "reads", "work")


def sha256(wheel: Path) -> str:
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def start(tiny: Tiny, *arguments: str | Path) -> subprocess.Popen[bytes]:
    quiet = subprocess.DEVNULL
    return subprocess.Popen(
        tiny.command("build", "x86", *arguments), stdout=quiet, stderr=quiet, start_new_session=True
    )


def descendants(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.Error:
        return []


def named(members: Sequence[psutil.Process], name: str) -> list[psutil.Process]:
    """Return the processes of a program."""
    found = []
    for member in members:
        try:
            if name in (ANY, member.name()) or (name == SUPERVISOR and "supervisor.py" in " ".join(member.cmdline())):
                found.append(member)
        except psutil.Error:
            continue
    return found


def kill(member: psutil.Process) -> bool:
    """Kill a process unless it has ended; return whether it had not."""
    try:
        alive = member.status() != psutil.STATUS_ZOMBIE
        member.kill()
    except psutil.Error:
        return False
    return alive


def kill_at_random(process: subprocess.Popen[bytes], victim: str, chance: random.Random, longest: float = 2.0) -> bool:
    """Kill a victim a moment after ninja has started, or after the build has; return whether it was alive.

    Args:
        process: The build.
        victim: Which of its programs.
        chance: Decides on the moment, and on which of several.
        longest: Seconds to wait at most. Not long: what goes on where a killed build was may be over soon.
    """
    if victim not in (WHOLE, SUPERVISOR, ANY) or chance.random() < 0.5:
        while process.poll() is None and not named(descendants(process), "ninja"):
            time.sleep(0.02)
    time.sleep(chance.uniform(0, longest))
    if victim == WHOLE:
        process.kill()
        return process.wait() == -signal.SIGKILL
    while process.poll() is None:
        members = named(descendants(process), victim)
        chance.shuffle(members)
        if any(kill(member) for member in members):
            return True
        time.sleep(0.02)
    return False


def require_gone(tiny: Tiny, members: Sequence[psutil.Process], before: frozenset[tuple[int, float]]) -> None:
    """Check that nothing of a build is left: none of its processes, and none that works in its folders.

    Raises:
        AssertionError: Something is.
    """
    end = time.monotonic() + GONE_SECONDS
    while left := [*_living(members), *_working(tiny, before)]:
        assert time.monotonic() < end, f"left behind: {[(one.pid, one.name(), one.cmdline()[:4]) for one in left]}"
        time.sleep(0.1)


def running() -> frozenset[tuple[int, float]]:
    """Return all processes of the machine, each with when it was started."""
    found = set()
    for process in psutil.process_iter():
        try:
            found.add((process.pid, process.create_time()))
        except psutil.Error:
            continue
    return frozenset(found)


def _living(members: Sequence[psutil.Process]) -> list[psutil.Process]:
    found = []
    for member in members:
        try:
            if member.is_running() and member.status() != psutil.STATUS_ZOMBIE:
                found.append(member)
        except psutil.Error:
            continue
    return found


def _working(tiny: Tiny, before: frozenset[tuple[int, float]]) -> list[psutil.Process]:
    """Return processes that were started since and have a folder of the build as theirs, or in their arguments."""
    found = []
    for process in psutil.process_iter():
        try:
            if (process.pid, process.create_time()) in before or process.status() == psutil.STATUS_ZOMBIE:
                continue
            about = " ".join([*process.cmdline(), process.cwd()])
        except psutil.Error:
            continue
        if process.pid != os.getpid() and any(str(folder) in about for folder in (tiny.cache, tiny.root, tiny.dist)):
            found.append(process)
    return found


def require_whole(tiny: Tiny, since: float, *, ended: bool) -> None:
    """Check that no wheel counts that is not whole, and that each new entry of the stores is as it was sealed.

    Args:
        tiny: The project.
        since: When the first build was begun: a Unix time.
        ended: Whether the last build went to its end; then nothing unfinished is left in the output folder.

    Raises:
        AssertionError: One is not.
    """
    for wheel in tiny.dist.glob("*/[!.]*/*.whl"):
        if (wheel.parent / RECORD).exists():
            assert read_built(wheel.parent).path.is_file()
    if ended:
        assert not list(tiny.dist.glob("*/.*"))
        assert not list(tiny.dist.glob("*/*/.*"))
    manifests = [path for trust in Trust for path in (tiny.cache / trust.value).glob(f"*/[!.]*/{MANIFEST}")]
    for manifest in manifests:
        if manifest.stat().st_mtime >= since:
            assert check_entry(manifest.parent) == []


def kernels(tiny: Tiny) -> dict[str, str]:
    """Return the digest of each library and module in the stores' kernels of trees."""
    folder = tiny.cache / Trust.LOCAL.value / "kernels"
    return {str(path.relative_to(folder)): sha256(path) for path in sorted(folder.rglob("*.so"))}


def survive(
    here: Tiny,
    tree: Path,
    victims: Sequence[str],
    *,
    expected: str,
    after_each: Callable[[], None] = lambda: None,
    seed: int = 20,
) -> Counter[str]:
    """Start a build and kill a part of it, again and again, then let one go to its end.

    A build that ends before its victim is found counts for nothing.

    Args:
        here: The project.
        tree: What is built.
        victims: Who is killed, one after the other.
        expected: Digest of the wheel that an undisturbed build makes.
        after_each: Called after each build.
        seed: Of the moments.

    Returns:
        How often each was killed.

    Raises:
        AssertionError: Something is left of a build, is not whole, or the wheel is another one.
    """
    chance, since = random.Random(seed), time.time()
    hit: Counter[str] = Counter()
    builds = 0
    while hit.total() < len(victims):
        victim = victims[hit.total()]
        assert builds < 3 * len(victims), f"{dict(hit)} were killed; none was left to be {victim}"
        before = running()
        process = start(here, "--source", tree)
        builds += 1
        alive = kill_at_random(process, victim, chance, longest=12 if victim == ANY else 2)
        hit[victim] += alive
        members = descendants(process)
        try:
            process.wait(BUILD_SECONDS)
        except subprocess.TimeoutExpired:
            running_then = [(one.pid, one.name(), one.cmdline()[-3:]) for one in descendants(process)]
            process.kill()
            raise AssertionError(f"{victim} was killed, and the build went on for ever: {running_then}") from None
        require_gone(here, members, before)
        wheels = list(here.dist.glob("*/[!.]*/*.whl"))
        require_whole(here, since, ended=process.returncode == 0)
        if process.returncode == 0:  # it did without the one that was killed, or was faster: from the start again
            assert [sha256(wheel) for wheel in wheels] == [expected]
        after_each()
        if wheels:
            forget_kernels(here)
            forget(here.cache, "compiler-cache", "packed", "audited", "described", "packages")
            shutil.rmtree(here.dist)
    assert sha256(here.build("--source", tree)) == expected
    require_whole(here, since, ended=True)
    return hit


def with_compiler_cache(tiny: Tiny, folder: Path) -> Tiny:
    """Return the project with a compiler cache, and an output folder of its own."""
    root = shutil.copytree(tiny.root, folder / "project")
    with (root / "matrix.yaml").open("a") as matrix:
        matrix.write("compiler_cache: {x86_64: ccache-amd64}\n")
    return dataclasses.replace(tiny, root=root, dist=folder / "dist")
