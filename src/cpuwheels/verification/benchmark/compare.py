"""Timing the same calls on two wheels, in turn within one run."""

from __future__ import annotations

import math
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from cpuwheels.verification.benchmark.ratio import Ratio, geometric_mean, median_ratio
from cpuwheels.verification.benchmark.worker import LeftOutError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cpuwheels.verification.benchmark.worker import Begun, Worker

SAMPLE_SECONDS = 1e-3
"""A sample's calls take about as long together: clocks and interruptions then count for little."""

ORDER = (0, 1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0)
"""The order of the sides in a round: neither comes earlier on average, so a trend does not count."""

_MOST_CALLS = 1000
_FAILURES = 2
"""After so many cases of one function that cannot be timed, its other cases are left out."""


@dataclass
class CaseTimes:
    """One operator's call in one case, and what it took.

    Attributes:
        case: The case's name.
        operator: The operator.
        place: Which of the case's calls it is; None as long as it is not known.
        seconds: Of a call on the wheel, one for each round.
        against: The same on the other.
    """

    case: str
    operator: str
    place: int | None = None
    seconds: list[float] = field(default_factory=list)
    against: list[float] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """How many times as fast the wheel was in each round."""
        return [other / own for own, other in zip(self.seconds, self.against, strict=True)]


@dataclass(frozen=True)
class LeftOut:
    """What was not timed.

    Attributes:
        operator: The operator.
        case: The case; empty if there is none.
        reason: Why.
    """

    operator: str
    case: str
    reason: str


@dataclass(frozen=True)
class OperatorSpeed:
    """One operator on two wheels.

    Attributes:
        operator: Its name.
        ratio: Median, over the rounds, of the geometric mean of its cases.
        cases: Its cases.
    """

    operator: str
    ratio: Ratio
    cases: tuple[CaseTimes, ...]

    @property
    def seconds(self) -> float:
        """Of a call on the wheel: the geometric mean of its cases' medians."""
        return geometric_mean([median(case.seconds) for case in self.cases])

    @property
    def against(self) -> float:
        """The same on the other."""
        return geometric_mean([median(case.against) for case in self.cases])


@dataclass
class Comparison:
    """The times of one comparison, as they come in.

    Attributes:
        operators: Operators to time; all if empty.
        most: Cases of each operator and data type, the largest that can be timed.
        on_case: Told of each case that begins: how many are done, how many there are, and its name.
        times: What was timed.
        left_out: What was not.
    """

    operators: Sequence[str]
    most: int
    on_case: Callable[[int, int, str], None]
    times: list[CaseTimes] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    def first_round(self, wheel: Worker, other: Worker) -> None:
        """Time the largest cases of each operator and data type that can be timed on both sides."""
        groups = candidates(wheel, other, self.operators)
        for number, ((operator, _), names) in enumerate(groups.items()):
            kept, failures = 0, Counter[str]()
            for name in names:
                function = name.partition("[")[0]
                if kept == self.most or failures[function] == _FAILURES:
                    continue
                self.on_case(number * self.most + kept, len(groups) * self.most, name)
                times = CaseTimes(name, operator)
                if self._add(times, wheel, other):
                    self.times.append(times)
                    kept += 1
                else:
                    failures[function] += 1
        tried = {operator for operator, _ in groups}
        one, two = set(wheel.operators), set(other.operators)
        self._without_case(one ^ two, "only one of the wheels has it")
        self._without_case((one & two) - tried, "it has no case")

    def next_round(self, wheel: Worker, other: Worker) -> None:
        """Time the same cases once more, in other processes."""
        kept = []
        for number, times in enumerate(self.times):
            self.on_case(number, len(self.times), times.case)
            if self._add(times, wheel, other):
                kept.append(times)
        self.times = kept

    def speeds(self) -> list[OperatorSpeed]:
        """Return the operators, the slowest ratio first."""
        cases: dict[str, list[CaseTimes]] = {}
        for times in self.times:
            cases.setdefault(times.operator, []).append(times)
        return sorted(
            (OperatorSpeed(name, _combined(found), tuple(found)) for name, found in cases.items()),
            key=lambda speed: speed.ratio.value,
        )

    def _without_case(self, operators: set[str], reason: str) -> None:
        asked = operators & set(self.operators) if self.operators else operators
        self.left_out += [LeftOut(operator, "", reason) for operator in sorted(asked)]

    def _add(self, times: CaseTimes, wheel: Worker, other: Worker) -> bool:
        try:
            time_round(times, wheel, other)
        except LeftOutError as error:
            self.left_out.append(LeftOut(times.operator, times.case, str(error)))
            return False
        return True


def candidates(wheel: Worker, other: Worker, operators: Sequence[str]) -> dict[tuple[str, str], list[str]]:
    """Return the cases that both sides have, the largest first, by operator and data type.

    Args:
        wheel: The wheel's process.
        other: The other's.
        operators: Operators to time; all if empty.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    shared = [about for name, about in wheel.cases.items() if name in other.cases]
    for about in sorted(shared, key=lambda about: (-about["size"], about["name"])):
        for operator in about["operators"]:
            if not operators or operator in operators:
                groups.setdefault((operator, about["dtype"]), []).append(about["name"])
    return dict(sorted(groups.items()))


def time_round(times: CaseTimes, wheel: Worker, other: Worker) -> None:
    """Time one call on both sides, in turn.

    The shortest sample counts, as whatever else runs on the machine only ever adds time (Chen & Revels 2016, Robust
    Benchmarking in Noisy Environments).

    Args:
        times: What to time; gets the shortest of each side's samples.
        wheel: The wheel's process.
        other: The other's.

    Raises:
        LeftOutError: It cannot be timed on one of the sides.
    """
    sides = (wheel, other)
    try:
        for side in sides:
            side.begin(times.case, times.operator, times.place)
        begun = _all_begun(sides)
        times.place = begun[0].place
        count = calls_of(min(one.seconds for one in begun))
        samples: tuple[list[float], list[float]] = ([], [])
        for turn in ORDER:
            samples[turn].append(sides[turn].sample(count))
    finally:
        for side in sides:
            with suppress(LeftOutError):
                side.end()
    times.seconds.append(min(samples[0]))
    times.against.append(min(samples[1]))


def calls_of(seconds: float) -> int:
    """Return how many calls a sample has if one takes so long."""
    return max(1, min(_MOST_CALLS, math.ceil(SAMPLE_SECONDS / max(seconds, 1e-7))))


def _all_begun(sides: Sequence[Worker]) -> list[Begun]:
    """Wait until all sides are at the call; if one cannot be, only after the others have answered, too."""
    begun, failed = [], None
    for side in sides:
        try:
            begun.append(side.begun())
        except LeftOutError as error:
            failed = failed or error
    if failed:
        raise failed
    return begun


def _combined(cases: Sequence[CaseTimes]) -> Ratio:
    return median_ratio([geometric_mean(row) for row in zip(*(case.ratios for case in cases), strict=True)])
