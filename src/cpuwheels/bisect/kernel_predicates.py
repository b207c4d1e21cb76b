"""Verdicts of this project's own checks: an operator's results against its oracle, and its speed."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cpuwheels.bisect.predicates import Judgement, nothing
from cpuwheels.bisect.search import Verdict
from cpuwheels.config.options import ParityOptions, SpeedOptions
from cpuwheels.core.errors import UsageError
from cpuwheels.pipeline import test_wheel
from cpuwheels.verification.parity.results import WRONG

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cpuwheels.config.matrix import Matrix
    from cpuwheels.config.options import Level
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter
    from cpuwheels.verification.benchmark.ratio import Ratio

ROUNDS = (9, 27, 81)
"""Starts of both sides before a verdict on speed: three times as many each time there is none yet."""


@dataclass(frozen=True)
class ParityPredicate:
    """An operator's results.

    Attributes:
        operator: The operator.
        level: How many cases.
        paths: Returns the folders for a commit's run.
        matrix: The configuration.
        target: Target id.
    """

    operator: str
    level: Level
    paths: Callable[[str], Paths]
    matrix: Matrix
    target: str

    def __call__(
        self, wheel: Path, commit: str, folder: Path, reporter: Reporter, waiting: Callable[[], None] = nothing
    ) -> Judgement:
        """Test the operator on every kernel library that this CPU runs.

        Raises:
            CpuwheelsError: Any stage's own error.
        """
        del folder  # the run has a log folder of its own
        waiting()
        options = ParityOptions(wheel=wheel, level=self.level, operators=(self.operator,), emulation=False)
        try:
            parity = test_wheel.check_wheel(self.paths(commit), self.matrix, self.target, wheel, options, reporter)
        except UsageError as error:
            return Judgement(Verdict.SKIP, error.what)
        wrong = [case for _, case in parity.cases if case.verdict in WRONG]
        if wrong or not parity.right:
            first = next((problem for case in wrong for problem in case.problems), "it has no case")
            return Judgement(Verdict.BAD, f"{len(wrong)} of {len(parity.cases)} cases are wrong: {first}")
        return Judgement(Verdict.GOOD, f"{len(parity.cases)} cases are right")


@dataclass(frozen=True)
class SpeedPredicate:
    """An operator's speed against the good end's.

    Attributes:
        operator: The operator.
        slower: The multiple of the good end's time from which it is too slow.
        library: Kernel library.
        good: Returns the good end's wheel.
        paths: Returns the folders for a commit's run.
        matrix: The configuration.
        target: Target id.
    """

    operator: str
    slower: float
    library: str
    good: Callable[[Reporter], Path]
    paths: Callable[[str], Paths]
    matrix: Matrix
    target: str

    def __call__(
        self, wheel: Path, commit: str, folder: Path, reporter: Reporter, waiting: Callable[[], None] = nothing
    ) -> Judgement:
        """Time the operator of both wheels in turn, with more rounds as long as there is no verdict.

        The good end itself is timed against a copy of itself.

        Raises:
            CpuwheelsError: Any stage's own error.
        """
        del waiting  # nothing else may run meanwhile
        against = other_file(self.good(reporter), wheel, folder)
        options = SpeedOptions(against=against, library=self.library, operators=(self.operator,))
        said = ""
        for rounds in ROUNDS:
            asked = replace(options, rounds=rounds)
            try:
                result = test_wheel.compare_speed(self.paths(commit), self.matrix, self.target, wheel, asked, reporter)
            except UsageError as error:
                return Judgement(Verdict.SKIP, error.what)
            (speed,) = result.speeds
            said = (
                f"{1 / speed.ratio.value:.3f} times as long as the good end "
                f"({1 / speed.ratio.high:.3f} to {1 / speed.ratio.low:.3f}, {rounds} rounds)"
            )
            if verdict := speed_verdict(speed.ratio, self.slower):
                return Judgement(verdict, said)
        return Judgement(Verdict.SKIP, f"{said}: too close to {self.slower:g} to tell")


def other_file(good: Path, wheel: Path, folder: Path) -> Path:
    """Return the good end's wheel to compare with; for the good end itself a copy, in a folder."""
    if good != wheel:
        return good
    copy = folder / "copy" / wheel.name
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(wheel, copy)
    return copy


def speed_verdict(ratio: Ratio, slower: float) -> Verdict | None:
    """Return the verdict of a speed ratio, with the confidence of its interval; None if there is none.

    Args:
        ratio: How many times as fast as the good end.
        slower: How many times as long is too slow.
    """
    if 1 / ratio.high >= slower:
        return Verdict.BAD
    if 1 / ratio.low < slower:
        return Verdict.GOOD
    return None
