"""A side of a comparison that answers like a worker, with times that are given."""

from __future__ import annotations

from typing import Any

from cpuwheels.verification.benchmark.worker import Begun, LeftOutError


class Side:
    """Answers without a process.

    Args:
        seconds: Of a call, by case; the case's operators are what is before the bracket, with ``+`` between them.
        name: What it is called.
        calls: Gets its name for every sample.
        fails: Why a case cannot be timed.
    """

    def __init__(
        self,
        seconds: dict[str, float],
        name: str = "",
        calls: list[str] | None = None,
        fails: dict[str, str] | None = None,
    ) -> None:
        self.name, self._seconds, self._fails = name, seconds, fails or {}
        self._calls = calls if calls is not None else []
        self.cases: dict[str, dict[str, Any]] = {
            case: {"name": case, "operators": case.split("[")[0].split("+"), "dtype": "", "size": len(case)}
            for case in seconds
        }
        self.operators = sorted({name for about in self.cases.values() for name in about["operators"]})
        self.asked: list[tuple[str, int | None]] = []
        self.counts: list[int] = []
        self.open = self._next = ""

    def begin(self, case: str, operator: str, place: int | None) -> None:
        """Begin a case."""
        self.asked.append((f"{operator} of {case}", place))
        self._next = case

    def begun(self) -> Begun:
        """Say that it has begun."""
        if self._next in self._fails:
            raise LeftOutError(self._fails[self._next])
        self.open = self._next
        place = self.asked[-1][1]
        return Begun(3 if place is None else place, self._seconds[self.open])

    def ready(self) -> None:
        """Be ready."""

    def sample(self, count: int) -> float:
        """Return the case's time."""
        self._calls.append(self.name)
        self.counts.append(count)
        return self._seconds[self.open]

    def end(self) -> None:
        """End the case."""
        self.open = ""
