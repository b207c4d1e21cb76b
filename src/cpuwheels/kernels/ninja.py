"""Running ninja: progress for people, and failed compilations distinguished from those killed for memory."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cpuwheels.core.concurrency import in_background
from cpuwheels.core.errors import CommandError, CompileError, OutOfMemoryError
from cpuwheels.core.process import run
from cpuwheels.core.progress import Progress, rough_clock
from cpuwheels.core.units import format_size
from cpuwheels.kernels.configure import build_environment_variables
from cpuwheels.kernels.eta import Remaining

if TYPE_CHECKING:
    import threading
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from cpuwheels.core.console import Reporter
    from cpuwheels.kernels.launchers import Launchers
    from cpuwheels.kernels.memory.admission import Session
    from cpuwheels.kernels.memory.memgate import GateJob
    from cpuwheels.kernels.request import KernelRequest
    from cpuwheels.kernels.workspace import Workspace

_STATUS = re.compile(r"\[(?P<done>\d+)/(?P<total>\d+)\] (?P<what>.*)")
_FAILED = re.compile(r"FAILED: (?:\[code=(?P<status>\d+)\] )?(?P<output>\S+).*")
# GCC's driver ends with status 1 whether the compiler proper found an error or was killed; only its words
# differ (gcc/gcc.cc, execute(): "%s signal terminated program %s"; gcc/collect2.cc: "%s terminated with signal
# %d"; libiberty/xmalloc.c: "%s: out of memory allocating"). Messages are in English under LC_ALL=C.
_KILLED = re.compile(
    r"Killed signal terminated program (?P<program>\S+)"
    r"|(?P<linker>\S+) terminated with signal 9\b"
    r"|(?P<refused>\S+): out of memory allocating"
    r"|(?P<gated>\S+) was killed for memory"
)
_CALLED_OFF = "memgate: not started"
_KILLED_STATUS = "137"  # 128 + SIGKILL: the driver itself was killed, so it printed nothing
_CONTEXT_LINES = 25
_SAMPLE_SECONDS = 2.0


def compile_modules(
    request: KernelRequest, workspace: Workspace, launchers: Launchers, session: Session, reporter: Reporter, log: Path
) -> None:
    """Build every extension module with ninja.

    Raises:
        OutOfMemoryError: A compiler was killed for memory.
        CompileError: A file did not compile or link.
    """
    ninja = request.environment.scripts / "ninja"
    env = build_environment_variables(request, workspace, launchers)
    targets = [*workspace.modules(), *workspace.lists()]
    run_ninja(ninja, workspace.build, targets, env, launchers, session, reporter, log)
    workspace.require_files()


def run_ninja(
    ninja: Path,
    build: Path,
    targets: Sequence[str],
    env: Mapping[str, str],
    launchers: Launchers,
    session: Session,
    reporter: Reporter,
    log: Path,
) -> None:
    """Build some targets of a build folder below the cap.

    ninja starts as many jobs as it may; memgate sees them all and lets those run that there is room for.

    Args:
        ninja: The program.
        build: The folder, configured with launchers of the session's gate.
        targets: What to make.
        env: The environment, without the gate's variables.
        launchers: Confine ninja.
        session: The build behind the gate.
        reporter: Shows progress.
        log: Ninja's output.

    Raises:
        OutOfMemoryError: A compiler was killed for memory.
        CompileError: A file did not compile or link.
    """
    watch = _Watch(reporter, session, build, targets)
    # The control group is entered first: what makes the sandbox counts, and a confined process could not enter it.
    confined = launchers.confined(
        f"compiling {', '.join(targets)}",
        [ninja, "-C", build, f"-j{session.window}", *targets],
        {**env, **session.plan.gate.environment()},
        [session.held.oom_events] if session.held.oom_events else [],
    )
    try:
        with in_background(watch.show):
            run(session.command(confined.argv), log=log, env=confined.env, on_line=watch.line)
    except CommandError as error:
        cap = f"a memory cap of {format_size(session.plan.jobs.cap)}"
        raise explain_failure(watch.failure or error.output.splitlines(), cap, log) from error


def explain_failure(lines: list[str], where: str, log: Path) -> CompileError | OutOfMemoryError:
    """Return the error for ninja's output from the first failed job on."""
    failed = [job for job in _failed_jobs(lines) if not any(_CALLED_OFF in word for word in job.words)]
    for job in failed:
        killed = _KILLED.search("\n".join(job.words))
        if killed or job.status == _KILLED_STATUS:
            program = next(filter(None, killed.groups())) if killed else "the compiler or linker"
            return OutOfMemoryError(
                f"{program} was killed for memory while making {job.output}",
                where=where,
                log=log,
                next_step="give the build more memory (--memory); what is built is kept",
            )
    return CompileError(
        f"{failed[0].output} could not be made" if failed else "ninja could not build the kernels",
        where="the first failed job" if failed else "ninja",
        log=log,
        output="\n".join((failed[0].words if failed else lines)[:_CONTEXT_LINES]),
        next_step="read the log; running again goes on from here",
    )


@dataclass
class _FailedJob:
    status: str | None
    output: str
    words: list[str] = field(default_factory=list)


def _failed_jobs(lines: list[str]) -> list[_FailedJob]:
    """Split ninja's output into its failed jobs: a line of ninja's, the command, and what the command printed."""
    found: list[_FailedJob] = []
    heard, command_follows = False, False
    for line in lines:
        if match := _FAILED.fullmatch(line):
            found.append(_FailedJob(match["status"], match["output"]))
            heard, command_follows = True, True
        elif _STATUS.fullmatch(line) or line.startswith("ninja: "):
            heard = False  # other jobs end while ninja waits for them
        elif command_follows:
            command_follows = False
        elif heard:
            found[-1].words.append(line)
    return found


def _longest_first(running: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(running.items(), key=lambda one: -one[1])


class _Watch:
    """Reads ninja's lines and shows progress throughout, even while one long file compiles."""

    def __init__(self, reporter: Reporter, session: Session, build: Path, targets: Sequence[str]) -> None:
        self.failure: list[str] = []
        links = {name: cost for name, cost in session.links.items() if name.partition(".")[0] in targets}
        costs = {**session.expected, **links}
        self._costs = {name: cost for name, cost in costs.items() if not (build / name).exists()}
        self._remaining = Remaining(self._costs, session.plan.jobs.jobs, session.room)
        self._reporter = reporter
        self._session = session
        self._done = self._total = 0
        self._detail = ""

    def line(self, line: str) -> None:
        if match := _STATUS.fullmatch(line):
            self._done, self._total = int(match["done"]), int(match["total"])
            self._detail = match["what"].rsplit("/", 1)[-1]
        if line.startswith("FAILED:") or self.failure:
            self.failure.append(line)

    def show(self, stop: threading.Event) -> None:
        while not stop.wait(_SAMPLE_SECONDS):
            if self._reporter.shows_progress:
                self._reporter.progress(self._now())

    def _now(self) -> Progress:
        status = self._session.plan.gate.status()
        running = self._running(status.jobs if status else (), self._made())
        estimate = self._remaining.estimate(running)
        return Progress(
            self._done,
            self._total,
            part=estimate.part if estimate else None,
            memory=status.bytes if status else None,
            cap=self._session.plan.jobs.cap,
            eta=estimate.seconds if estimate else None,
            detail=self._detail,
            running=tuple(f"{name.rsplit('/', 1)[-1]} {rough_clock(age)}" for name, age in _longest_first(running)),
        )

    def _made(self) -> set[str]:
        """Update the estimate with the finished files, and return it."""
        made = set()
        for record in self._session.records():
            if record.status == 0:
                self._remaining.finish(record.output, record.wall, cached=record.cached)
                made.add(record.output)
        return made

    def _running(self, jobs: Sequence[GateJob], made: Collection[str]) -> dict[str, float]:
        """Return which files the jobs at the gate make, and for how many seconds.

        The gate knows what each was expected to cost, and no two files are expected to cost the same.
        """
        ages: dict[float, list[float]] = {}
        for job in jobs:
            ages.setdefault(job.expected, []).append(job.age)
        missing = (name for name in self._costs if name not in made)
        return {name: of.pop() for name in missing if (of := ages.get(self._costs[name].seconds))}
