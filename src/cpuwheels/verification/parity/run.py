"""One run of parity: the cases on each library, on each CPU that it is tested on."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from cpuwheels.core.concurrency import run_parallel
from cpuwheels.core.errors import ParityError
from cpuwheels.core.progress import Progress
from cpuwheels.core.text import counted
from cpuwheels.sandbox.confine import unconfined
from cpuwheels.verification.parity.operator_filter import require_operators
from cpuwheels.verification.parity.results import WRONG, Parity
from cpuwheels.verification.parity.suite import WHOLE, Part, Suite, no_core_files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from cpuwheels.config.matrix import Target
    from cpuwheels.config.options import Level
    from cpuwheels.core.console import Reporter
    from cpuwheels.sandbox.confine import Confine
    from cpuwheels.verification.emulation.cpus import Cpu
    from cpuwheels.verification.onednn_isa import OnednnLimit
    from cpuwheels.verification.parity.results import LibraryResult
    from cpuwheels.verification.parity.sanitizer_run import SanitizerRun
    from cpuwheels.wheel.kernel_wheel import KernelWheel


@dataclass(frozen=True)
class ParityRequest:
    """What is asked of one run.

    Attributes:
        wheel: The wheel.
        target: Says which CPU features its libraries need.
        only: Operators to test; all if empty.
        fixed_faults: Known faults of upstream's kernels that the wheel does not have.
        onednn: Release of the oneDNN in it; empty if it is not known.
        untried: Kernels of its libraries that no CPU has run yet, by library.
    """

    wheel: KernelWheel
    target: Target
    only: Sequence[str] = ()
    fixed_faults: Sequence[str] = ()
    onednn: str = ""
    untried: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Trial:
    """How libraries are tested on a CPU.

    Attributes:
        cpu: The CPU, with an interpreter that has torch and what the cases need.
        level: ``smoke``, ``full`` or ``deep``.
        parts: Into how many parts the cases of each library are divided, to run side by side.
        once: Whether no case is run again: another CPU shows whether the bits are the same each time.
    """

    cpu: Cpu
    level: Level
    threads: int
    parts: int = 1
    once: bool = False


@dataclass(frozen=True)
class ParityEnvironment:
    """Where a run happens.

    Attributes:
        trials: The CPUs. The first one's level and threads are those of the run.
        site: The folder that the wheel is installed into.
        torch: The torch version that is there, local label included.
        tests: Folder of the cases.
        work: Folder for what is needed during the run only.
        logs: Folder for the logs.
        machine: Name of the machine's CPU.
        emulated: Whether none of the CPUs is this machine's own.
        at_once: How many libraries are tested at once.
        onednn: How far oneDNN may go with this machine's own CPU; None if it finds out itself.
        confine: Confines the processes.
        sandbox: What does, as records have it.
        sanitizers: Those that the libraries were compiled for, if they were.
    """

    trials: Sequence[Trial]
    site: Path
    torch: str
    tests: Path
    work: Path
    logs: Path
    machine: str
    emulated: bool = False
    at_once: int = 1
    onednn: OnednnLimit | None = None
    confine: Confine = unconfined
    sandbox: Mapping[str, str] = field(default_factory=dict)
    sanitizers: SanitizerRun | None = None

    @property
    def threads(self) -> int:
        """How many threads the operators use."""
        return self.trials[0].threads


def run_parity(request: ParityRequest, environment: ParityEnvironment, reporter: Reporter) -> Parity:
    """Test a wheel's operators on each library that the CPUs can run.

    Returns:
        What was found; wrong results are part of it, and not an error.

    Raises:
        ParityError: The cases cannot be run, or no CPU can run a library of the wheel.
        UsageError: No library of the wheel has an operator that was asked for.
    """
    wheel, target = request.wheel, request.target
    began, started = datetime.now(UTC), time.monotonic()
    runs, not_run = _plan(request, environment, reporter)
    if not runs:
        raise ParityError(
            f"no library of {wheel.path.name} can run on {'the emulated CPUs' if environment.emulated else 'this CPU'}",
            where=environment.machine if environment.emulated else "this machine",
            next_step=f"run it on a CPU with {', '.join(target.libraries[-1].needs)}",
        )
    with no_core_files():
        found = _joined(run_parallel(runs, environment.at_once))
    registered = {name for library in found for name in library.registered}
    require_operators(request.only, registered, "no library of the wheel")
    reporter.info(f"seed {found[0].seed}")
    return Parity(
        wheel=wheel.path.name,
        sha256=wheel.sha256,
        version=wheel.version,
        torch=environment.torch,
        machine=environment.machine,
        emulated=environment.emulated,
        threads=environment.threads,
        level=environment.trials[0].level,
        only=tuple(request.only),
        fixed_faults=tuple(request.fixed_faults),
        seed=found[0].seed,
        began=began.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - started, 1),
        libraries=tuple(found),
        not_run=not_run,
        untried=_untried(request, environment, not_run),
        onednn_limit=environment.onednn.isa if environment.onednn else "",
        onednn_reason=environment.onednn.reason if environment.onednn else "",
        sandbox=dict(environment.sandbox),
    )


def _plan(
    request: ParityRequest, environment: ParityEnvironment, reporter: Reporter
) -> tuple[list[Callable[[], LibraryResult]], dict[str, str]]:
    """Return what is to be run, and why the rest is not."""
    needs = {library.name: library.needs for library in request.target.libraries}
    runs: list[Callable[[], LibraryResult]] = []
    not_run: dict[str, str] = {}
    for trial in environment.trials:
        cpu = trial.cpu
        suite = Suite(
            cpu.python,
            environment.tests,
            environment.work,
            environment.logs,
            trial.level,
            trial.threads,
            tuple(request.only),
            cpu.environment,
            environment.confine,
            request.wheel.version,
            request.fixed_faults,
            request.onednn,
            environment.sanitizers,
            trial.once,
        )
        for name, file in request.wheel.libraries.items():
            if not cpu.tries(name):
                continue
            if lacking := cpu.lacks(needs.get(name, ())):
                not_run[name] = f"{cpu.name or 'this CPU'} lacks {', '.join(lacking)}"
                continue
            label = f"{name}@{cpu.name}" if cpu.name else name
            parts = [Part(number, trial.parts) for number in range(1, trial.parts + 1)]
            runs += [partial(_library, suite, label, environment.site / file, reporter, part) for part in parts]
    for name in request.wheel.libraries:
        if not any(trial.cpu.tries(name) for trial in environment.trials):
            not_run[name] = "the matrix names no emulated CPU for it"
    for name, reason in not_run.items():
        reporter.announce(f"{name} was not run: {reason}")
    return runs, not_run


def _untried(request: ParityRequest, environment: ParityEnvironment, not_run: Collection[str]) -> dict[str, str]:
    """Return why untried kernels of the libraries that were run were not run either."""
    found = {}
    libraries = request.target.libraries
    known = {(library.name, kernels.name): kernels.needs for library in libraries for kernels in library.untried}
    for library, names in request.untried.items():
        cpu = next((trial.cpu for trial in environment.trials if trial.cpu.tries(library)), None)
        if library in not_run or cpu is None:
            continue
        for name in names:
            lacking = cpu.lacks(known.get((library, name), ()))
            reason = f"{cpu.name or 'this CPU'} lacks {', '.join(lacking)}" if lacking else "no case is for it"
            found[f"{name} of {library}"] = reason
    return found


def _joined(found: Sequence[LibraryResult]) -> list[LibraryResult]:
    """Put the parts of each library together."""
    whole: dict[str, LibraryResult] = {}
    for part in found:
        before = whole.setdefault(part.name, part)
        if before is not part:
            cases, seconds = before.cases + part.cases, max(before.seconds, part.seconds)
            whole[part.name] = before.model_copy(update={"cases": cases, "seconds": seconds})
    return list(whole.values())


def _library(suite: Suite, name: str, file: Path, reporter: Reporter, part: Part) -> LibraryResult:
    shown = name if part == WHOLE else f"{name}, part {part.number} of {part.of}"

    def on_case(count: int, case: str) -> None:
        reporter.progress(Progress(count, 0, unit="cases", detail=f"{shown}: {case}"))

    result = suite.run(name, file, on_case, part)
    wrong = [row for row in result.rows() if row.verdict in WRONG]
    what = f"{counted(len({row.operator for row in wrong}), 'operator')} wrong" if wrong else "all right"
    if known := {case.known for case in result.cases if case.verdict == "known"}:
        what += f" but for {counted(len(known), 'known fault')}"
    if part == WHOLE and (expired := {case.known for case in result.cases if case.expired}):
        what += f"; known faults that no longer show: {', '.join(sorted(expired))}"
    if not result.operators:
        what = "none of those asked for"
    operators, cases = counted(len(result.operators), "operator"), counted(len(result.cases), "case")
    reporter.info(f"{shown}: {operators}, {cases}, {what}")
    return result
