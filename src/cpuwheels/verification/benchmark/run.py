"""``nox -s kernel-bench-x86``: two wheels into two environments, and their operators timed in turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cpuwheels.core.errors import UsageError
from cpuwheels.core.progress import Progress
from cpuwheels.sandbox.confine import unconfined
from cpuwheels.verification.benchmark.compare import Comparison
from cpuwheels.verification.benchmark.worker import Worker
from cpuwheels.verification.emulation.cpus import require_runnable
from cpuwheels.verification.parity.operator_filter import require_operators

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from cpuwheels.core.console import Reporter
    from cpuwheels.sandbox.confine import Confine
    from cpuwheels.wheel.kernel_wheel import KernelWheel


@dataclass(frozen=True)
class Side:
    """A wheel that is installed.

    Attributes:
        wheel: The wheel.
        python: Interpreter of its environment.
        site: Where it is installed.
        env: Variables that it needs on this CPU.
        confine: Confines the commands of its interpreter.
    """

    wheel: KernelWheel
    python: Path
    site: Path
    env: Mapping[str, str] = field(default_factory=dict)
    confine: Confine = unconfined

    def worker(self, library: str, script: Path, threads: int, log: Path) -> Worker:
        """Start its process."""
        file = self.site / self.wheel.libraries[library]
        return Worker(self.wheel.path.name, self.python, script, file, threads, log, self.env, self.confine)


@dataclass(frozen=True)
class SpeedRequest:
    """What is asked of one comparison.

    Attributes:
        library: Name of the kernel library.
        operators: Operators to time; all if empty.
        rounds: How often both sides are started and timed.
        cases: Cases of each operator and data type.
        threads: Threads of the operators.
    """

    library: str
    operators: Sequence[str]
    rounds: int
    cases: int
    threads: int


def require_comparable(
    library: str, wheels: Sequence[KernelWheel], needs: Mapping[str, Collection[str]], features: Collection[str]
) -> None:
    """Check, before anything is installed, that there are two files with a library that this CPU can run.

    Args:
        library: Its name.
        wheels: The wheel, and the other.
        needs: CPU features that libraries need, by name.
        features: What this CPU has.

    Raises:
        UsageError: They are one file, one has no such library, or this CPU cannot run it.
    """
    one, two = wheels
    if one.path.resolve() == two.path.resolve():
        raise UsageError(
            f"{one.path.name} would be compared with itself",
            where="--against",
            next_step="give another wheel; to see how much times vary, give a copy of the file in another folder",
        )
    for wheel in wheels:
        if library not in wheel.libraries:
            raise UsageError(
                f"{wheel.path.name} has no library {library}",
                where="--library",
                next_step=f"choose from {', '.join(name for name in one.libraries if name in two.libraries)}",
            )
    require_runnable(library, needs, features)


def compare_wheels(
    request: SpeedRequest, wheel: Side, other: Side, *, script: Path, logs: Path, reporter: Reporter
) -> Comparison:
    """Time one library of two wheels.

    Both processes are started anew in every round: where one has its code, its threads and its memory makes it faster
    or slower by a percent or more for as long as it lives, so rounds of one start would all be wrong in the same way.

    Raises:
        UsageError: There is no such operator, or nothing is left to compare.
        ParityError: A library cannot be loaded.
    """
    number = 0

    def on_case(done: int, total: int, case: str) -> None:
        reporter.progress(Progress(number * total + done, request.rounds * total, unit="cases", detail=case))

    comparison = Comparison(request.operators, request.cases, on_case)
    for number in range(request.rounds):
        with (
            wheel.worker(request.library, script, request.threads, logs / "speed-wheel.log") as one,
            other.worker(request.library, script, request.threads, logs / "speed-against.log") as two,
        ):
            one.ready()
            two.ready()
            if number:
                comparison.next_round(one, two)
            else:
                there = {*one.operators, *two.operators}
                require_operators(request.operators, there, f"{request.library} of neither wheel")
                comparison.first_round(one, two)
        if not comparison.times:
            break
    if not comparison.times:
        reasons = sorted({f"{left.operator}: {left.reason}" for left in comparison.left_out})
        raise UsageError(
            "there is nothing to compare",
            where="--operator" if request.operators else f"--library {request.library}",
            output="\n".join(reasons[:20]),
            next_step="name operators that can be timed",
        )
    return comparison
