"""What the engine of a farm takes.

The same batch is done by one machine without a farm, and by farms of one and of several workers on it, each worker in
a control group of its own where one can be made. A made clone has a release and commits that change Python files, so
most jobs pack, audit, install and load a wheel whose kernels are stored: short jobs, of which the engine is the largest
part that it can be. Some commits may change kernels, which are compiled and audited then; the compiler cache has the
files that do not change. Each round has commits of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import psutil
from bisectbench.history import Repository
from buildbench.edit import KERNEL, edit_kernel

from cpuwheels.config.matrix import load_matrix
from cpuwheels.core.console import Reporter
from cpuwheels.core.entry_links import link_entries
from cpuwheels.core.errors import CommandError, CpuwheelsError
from cpuwheels.core.filesystem import remove_tree, storage_errors, write_atomic
from cpuwheels.core.sealed_entry import MOVABLE
from cpuwheels.core.store import Store, default_root
from cpuwheels.core.trust import Trust
from cpuwheels.farm.journal import FOLDER as JOURNAL
from cpuwheels.kernels.ccache.settings import FOLDER as COMPILER_CACHE
from cpuwheels.kernels.memory.cgroup_limit import places
from cpuwheels.source.request import request_source
from farmbench.command import own_commit
from farmbench.engine_results import LIMIT_PART, LIMIT_SECONDS, Results, Turn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ROOT = Path(__file__).parents[2]
_GROUP = "bench-cpuwheels-worker-"
_END_SECONDS = 120
_BASE = "before"
"""Tag of the commit after which those of a round come."""


@dataclass(frozen=True)
class Bench:
    """Where it is done.

    Attributes:
        work: Folder of everything.
        clone: The made clone, whose first commit is a release.
        target: Target id.
        options: Further options of each batch.
    """

    work: Path
    clone: Repository
    target: str
    options: tuple[str, ...] = ()

    @property
    def shared(self) -> Path:
        """The shared store with the release's kernels."""
        return self.work / "shared"

    def stores(self, workers: int) -> list[Path]:
        """Return the stores of one machine without a farm, and of so many workers."""
        names = [f"workers/worker-{number}/stores" for number in range(1, workers + 1)]
        return [self.work / name for name in ("stores", *names)]

    def command(self, cache: Path, dist: Path, *words: str | Path) -> list[str]:
        """Return a command of this program."""
        given = ("--cache", cache, "--dist", dist, *words)
        return [sys.executable, "-m", "cpuwheels", *map(str, given)]

    def batch(self, cache: Path, dist: Path, *words: str | Path) -> list[str]:
        """Return the command of the batch."""
        chosen = ("batch", self.target, "--since", _BASE, "--repo", self.clone.folder)
        return self.command(cache, dist, *chosen, *self.options, *words)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the benchmark and exit: 0, or 1 with ``--require`` if the engine takes more than it may."""
    options = _parser().parse_args(arguments)
    try:
        with storage_errors(options.work):
            results = _run(options, Reporter("bench"))
            path = options.json or _ROOT / "dist" / "bench" / f"farm-engine-{datetime.now(UTC):%Y%m%dT%H%M%S}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, results.model_dump_json(indent=1) + "\n")
    except CpuwheelsError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    print("\n".join(results.lines()))
    print(f"written: {path}", file=sys.stderr)
    missed = results.part() > LIMIT_PART or results.seconds_a_job() > LIMIT_SECONDS
    sys.exit(1 if options.require and missed else 0)


def _run(options: argparse.Namespace, reporter: Reporter) -> Results:
    bench = _prepared(options, reporter)
    turns: list[Turn] = []
    grouped = True
    for round_ in range(options.rounds + 1):  # the first one fills the stores of each side
        _add_commits(bench, options.commits, options.kernels, round_)
        for workers in (0, 1, options.workers):
            if workers:
                with _farm(bench, workers) as (farm, words, groups):
                    turn = _turn(bench, f"farm{workers}", workers, farm, words)
                grouped = grouped and groups
            else:
                turn = _turn(bench, "alone", 0, None, ("--store", bench.shared))
                if not round_:
                    _share_compiler_cache(bench, options.workers)
            reporter.info(f"round {round_}: {turn.model_dump_json()}")
            if round_:
                turns.append(turn)
    return Results(
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=own_commit(_ROOT),
        machine=f"{psutil.cpu_count()} CPUs, {_cpu()}",
        kernels=options.kernels,
        parity=options.parity,
        groups=grouped,
        turns=tuple(turns),
    )


def _prepared(options: argparse.Namespace, reporter: Reporter) -> Bench:
    """Make a shared store with the release's kernels, and give each side what needs not be fetched or compiled."""
    matrix = load_matrix(_ROOT)
    target, work = matrix.target(options.target).id, options.work.absolute()
    version, own = matrix.default_source, default_root()
    tree = request_source(version, None, matrix).get(Store(own), reporter).folder
    tests = ("--parity", options.parity) if options.parity else ()
    bench = Bench(work, Repository(work / "clone"), target, tests)
    bench.clone.release(tree, version)
    for words in (("build", target, "--source", version), ("share", target, "--store", bench.shared)):
        _require(subprocess.run(bench.command(own, work / "dist", *words), check=False).returncode, words[0])
    for stores in bench.stores(options.workers):
        link_entries(own, MOVABLE, stores)
    return bench


def _share_compiler_cache(bench: Bench, workers: int) -> None:
    """Give each worker what one machine has compiled; commits have a compiler cache of their own."""
    cache = Path(Trust.COMMIT.value, COMPILER_CACHE)
    own, *others = (stores / cache for stores in bench.stores(workers))
    for other in others if own.is_dir() else ():
        shutil.copytree(own, other, ignore=shutil.ignore_patterns("tmp"), dirs_exist_ok=True)


def _add_commits(bench: Bench, commits: int, kernels: int, round_: int) -> None:
    """Add a round's commits to the clone, after a tag; the last ones change kernels."""
    clone = bench.clone
    clone.git("tag", "--force", _BASE)
    for number in range(commits - kernels):
        clone.change(f"Change {number}", {f"vllm/change_{number}.py": f"number = {round_}\n"})
    for number in range(kernels):
        edit_kernel(clone.folder, KERNEL)
        clone.change(f"Change a kernel, {number}", {KERNEL: (clone.folder / KERNEL).read_text(encoding="utf-8")})


@contextlib.contextmanager
def _farm(bench: Bench, workers: int) -> Iterator[tuple[psutil.Process, tuple[str | Path, ...], bool]]:
    """Run a farm; yield its process, the options that send jobs to it, and whether each worker has a control group."""
    keys = bench.work / "keys"
    words = ("farm", "up", "--workers", str(workers), "--farm-keys", keys, "--folder", bench.work / "workers")
    command = bench.command(
        default_root(), bench.work / "dist", *words, "--repo", bench.clone.folder, "--store", bench.shared
    )
    if not keys.exists():
        made = bench.command(default_root(), bench.work / "dist", "farm", "keys", "--farm-keys", keys)
        _require(subprocess.run(made, check=False).returncode, "farm keys")
    with (
        (bench.work / "farm.log").open("a") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            address = process.stdout.readline().strip() if process.stdout else ""
            if not address:
                _require(process.wait(), "farm up")
            farm = psutil.Process(process.pid)
            with _groups(farm) as groups:
                yield farm, ("--farm", address, "--farm-keys", keys), groups == workers
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(_END_SECONDS)


@contextlib.contextmanager
def _groups(farm: psutil.Process) -> Iterator[int]:
    """Put each worker of a farm into a control group of its own; yield how many have one."""
    made: list[Path] = []
    moved = 0
    with contextlib.suppress(OSError, IndexError):
        own, parent = places()[0]
        for worker in _workers(farm):
            group = parent / f"{_GROUP}{worker.pid}"
            group.mkdir()
            made.append(group)
            (group / "cgroup.procs").write_text(str(worker.pid))
            moved += 1
    try:
        yield moved
    finally:
        for group in made:
            with contextlib.suppress(OSError):
                for pid in (group / "cgroup.procs").read_text().split():
                    (own.folder / "cgroup.procs").write_text(pid)
                group.rmdir()


def _workers(farm: psutil.Process) -> list[psutil.Process]:
    """Return the processes of a farm that do jobs; a nanny starts each with Python's multiprocessing."""
    return [child for child in farm.children() if any("spawn_main" in word for word in child.cmdline())]


def _turn(bench: Bench, name: str, workers: int, farm: psutil.Process | None, words: Sequence[str | Path]) -> Turn:
    dist, cache = bench.work / f"dist-{name}", bench.work / "stores"
    remove_tree(dist)
    before, began = _used(farm), time.monotonic()
    command = bench.batch(cache, dist, *words)
    with (bench.work / f"{name}.log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        command_used = _used_by_ended(process.pid)
    wall = time.monotonic() - began
    _require(process.returncode, f"batch, see {log.name}")
    after = _used(farm)
    seconds = [json.loads(path.read_text())["seconds"] for path in (dist / JOURNAL).glob("*.json")]
    return Turn(
        workers=workers,
        wall=round(wall, 2),
        cpu=round(command_used.all + after.all - before.all, 2),
        own=round(command_used.own + after.own - before.own, 2),
        jobs=len(seconds),
        job_seconds=round(sum(seconds), 1),
    )


def _used_by_ended(pid: int) -> _Used:
    """Wait for the end of a child, and return its CPU seconds; the system has them until it is waited for again."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return _used(psutil.Process(pid))


@dataclass(frozen=True)
class _Used:
    own: float
    all: float


def _used(first: psutil.Process | None) -> _Used:
    """Return the CPU seconds of some processes so far, without and with what they started and has ended.

    Args:
        first: A farm's first one, while no job runs, or a command that has ended; with it all below it.
    """
    times = [one.cpu_times() for one in (first, *first.children(recursive=True))] if first else []
    own = sum(one.user + one.system for one in times)
    return _Used(own, own + sum(one.children_user + one.children_system for one in times))


def _require(status: int, what: str | Path) -> None:
    if status:
        raise CommandError(
            f"{what} ended with status {status}", where="the benchmark", next_step="read what it printed"
        )


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nox -s bench -- farm-engine", description=__doc__)
    parser.add_argument("--target", default="x86", help="target id (%(default)s)")
    parser.add_argument("--workers", type=int, default=3, help="of the larger farm (%(default)s)")
    parser.add_argument("--commits", type=int, default=8, help="wheels of a batch (%(default)s)")
    parser.add_argument("--kernels", type=int, default=0, help="of them with changed kernels (%(default)s)")
    parser.add_argument("--parity", default="", help="level at which each wheel is tested (not at all)")
    parser.add_argument("--rounds", type=int, default=3, help="batches of each side (%(default)s)")
    parser.add_argument(
        "--work", type=Path, default=default_root() / "bench" / "farm-engine", help="where (%(default)s)"
    )
    parser.add_argument("--json", type=Path, help="results (a new file in dist/bench/)")
    parser.add_argument("--require", action="store_true", help="exit with 1 if the engine takes more than it may")
    return parser
