"""One run of parity: the wheel into an environment, the cases on each library, the reports beside the wheel."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cpuwheels.console import Progress
from cpuwheels.errors import ParityError
from cpuwheels.parity.install import install_wheel
from cpuwheels.parity.operators import require_operators
from cpuwheels.parity.results import WRONG, Parity
from cpuwheels.parity.suite import Suite

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from cpuwheels.console import Reporter
    from cpuwheels.model.matrix import Library, Target
    from cpuwheels.parity.results import LibraryResult
    from cpuwheels.parity.wheel import KernelWheel


@dataclass(frozen=True)
class ParityRequest:
    """What is asked of one run.

    Attributes:
        wheel: The wheel.
        target: Says which CPU features its libraries need.
        level: ``smoke``, ``full`` or ``deep``.
        only: Operators to try; all if empty.
    """

    wheel: KernelWheel
    target: Target
    level: str
    only: Sequence[str] = ()


@dataclass(frozen=True)
class Bench:
    """Where a run happens.

    Attributes:
        python: Interpreter of a fresh environment with the right torch.
        torch: The torch version in it, local label included.
        lock: Requirements file of the cases' own needs.
        tests: Folder of the cases.
        work: Folder for what is needed during the run only.
        logs: Folder for the logs.
        machine: Name of this machine's CPU.
        features: What it has.
        threads: How many threads the operators use.
        emulator: Runs programs on a CPU that this machine does not have; None for no such run.
    """

    python: Path
    torch: str
    lock: Path
    tests: Path
    work: Path
    logs: Path
    machine: str
    features: Collection[str]
    threads: int
    emulator: Path | None = None


def run_parity(request: ParityRequest, bench: Bench, reporter: Reporter) -> Parity:
    """Install a wheel and try its operators on each library that this CPU can run.

    Returns:
        What was found; wrong results are in it, and no error.

    Raises:
        EnvironmentError_: The wheel or the cases' needs cannot be installed.
        ParityError: The cases cannot be run, or this CPU can run no library of the wheel.
        UsageError: No library of the wheel has an operator that was asked for.
    """
    wheel, target = request.wheel, request.target
    site = install_wheel(wheel.path, bench.python, bench.lock, bench.logs)
    suite = Suite(
        [bench.python], bench.tests, bench.work, bench.logs, request.level, bench.threads, tuple(request.only)
    )
    began, started = datetime.now(UTC), time.monotonic()
    needs = {library.name: library.needs for library in target.libraries}
    found: list[LibraryResult] = []
    not_run: dict[str, str] = {}
    for name, file in wheel.libraries.items():
        if lacking := sorted(set(needs.get(name, ())) - set(bench.features)):
            not_run[name] = f"this CPU lacks {', '.join(lacking)}"
            reporter.announce(f"{name} was not run: {not_run[name]}")
            continue
        found.append(_library(suite, name, site / file, reporter))
    found += [
        _emulated(suite, library, site / wheel.libraries[library.name], bench.emulator, reporter)
        for library in target.libraries
        if bench.emulator and library.emulated and library.name in wheel.libraries
    ]
    if not found:
        raise ParityError(
            f"no library of {wheel.path.name} can run on this CPU",
            where="this machine",
            next_step=f"run it on a CPU with {', '.join(target.libraries[-1].needs)}",
        )
    registered = {name for library in found for name in library.registered}
    require_operators(request.only, registered, "no library of the wheel")
    reporter.info(f"seed {found[0].seed}")
    return Parity(
        wheel=wheel.path.name, sha256=wheel.sha256, version=wheel.version, torch=bench.torch, machine=bench.machine,
        threads=bench.threads, level=request.level, only=tuple(request.only),
        seed=found[0].seed, began=began.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - started, 1), libraries=tuple(found), not_run=not_run,
    )  # fmt: skip


def _library(suite: Suite, name: str, file: Path, reporter: Reporter) -> LibraryResult:
    def on_case(count: int, case: str) -> None:
        reporter.progress(Progress(count, 0, unit="cases", detail=f"{name}: {case}"))

    result = suite.run(name, file, on_case)
    wrong = [row for row in result.rows() if row.verdict in WRONG]
    what = f"{len({row.operator for row in wrong})} operators are wrong" if wrong else "all right"
    if known := {case.known for case in result.cases if case.verdict == "known"}:
        what += f" but for {len(known)} known faults"
    if mended := {case.known for case in result.cases if case.mended}:
        what += f"; known faults that do not show any more: {', '.join(sorted(mended))}"
    if not result.operators:
        what = "none of those asked for"
    reporter.info(f"{name}: {len(result.operators)} operators, {len(result.cases)} cases, {what}")
    return result


def _emulated(suite: Suite, library: Library, file: Path, emulator: Path, reporter: Reporter) -> LibraryResult:
    """Try a library on an emulated CPU: few cases, and one thread, as emulation shows neither speed nor races."""
    command = [emulator, "-cpu", str(library.emulated), *suite.python]
    few = replace(suite, python=command, level="smoke", threads=1)
    return _library(few, f"{library.name}@{library.emulated}", file, reporter)
