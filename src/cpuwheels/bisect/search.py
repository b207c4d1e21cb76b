"""The search for the first bad commit: a pure function of commits, verdicts and costs.

One commit is supposed to have made things bad, for itself and for all that descend from it. So a bad commit is the
culprit or descends from it, a good one is neither, and a skipped one tells nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cpuwheels.source.history import Commit


_ENCLOSED = 0.25
"""How much less likely a commit between two skipped ones is to get a verdict."""


class Verdict(StrEnum):
    """What is known of a commit."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"


class ContradictionError(ValueError):
    """No single commit can have led to these verdicts.

    Attributes:
        verdict: The one after which nothing was left.
        name: The commit that it is about.
    """

    def __init__(self, name: str, verdict: Verdict) -> None:
        super().__init__(f"with {name} {verdict}, no commit is left that could be the first bad one")
        self.name = name
        self.verdict = verdict


@dataclass(frozen=True)
class State:
    """What the verdicts leave.

    Attributes:
        suspects: The commits that may be the first bad one, oldest first; never empty.
        probes: The commits whose verdict would tell more, oldest first; none when the search has ended.
    """

    suspects: tuple[str, ...]
    probes: tuple[str, ...]

    @property
    def ended(self) -> bool:
        """Whether no verdict can tell more: the suspect is found, or those left differ by skipped commits alone."""
        return not self.probes


class Search:
    """The search in one range of commits.

    Sets of commits are whole numbers with one bit for each, so that ranges of 10,000 commits take milliseconds.
    """

    def __init__(self, commits: Sequence[Commit]) -> None:
        """Take the commits of a range.

        Args:
            commits: All that may be the first bad one: ancestors of the bad end, itself included, that are no
                ancestors of the good end. Parents come before children.

        Raises:
            ValueError: There is none, one is there twice, or a parent comes after its child.
        """
        if not commits:
            raise ValueError("a range without commits")
        self._names = tuple(commit.name for commit in commits)
        self._numbers = {name: number for number, name in enumerate(self._names)}
        if len(self._numbers) != len(commits):
            raise ValueError("a commit is in the range twice")
        self._behind: list[int] = []  # of each commit: itself and its ancestors
        for number, commit in enumerate(commits):
            behind = 1 << number
            for parent in (self._numbers[name] for name in commit.parents if name in self._numbers):
                if parent >= number:
                    raise ValueError(f"{self._names[parent]} is a parent of {commit.name} and comes after it")
                behind |= self._behind[parent]
            self._behind.append(behind)

    def state(self, verdicts: Mapping[str, Verdict]) -> State:
        """Return what verdicts on commits of the range leave.

        Raises:
            ContradictionError: They leave nothing.
            KeyError: One is on a commit outside the range.
        """
        suspects = self._suspects(verdicts)
        return State(
            suspects=tuple(name for number, name in enumerate(self._names) if suspects >> number & 1),
            probes=tuple(self._names[number] for number in self._telling(verdicts, suspects)),
        )

    def next_probes(
        self, verdicts: Mapping[str, Verdict], *, cost: Callable[[str], float] = lambda _name: 1.0, count: int = 1
    ) -> tuple[str, ...]:
        """Return the commits to test next, side by side: those that tell most for their cost.

        Without merges and skipped commits, n commits never take more than ``rounds(n, count)`` rounds: within that
        bound the choice is free, and the cheaper commit wins. Each skipped commit widens the choice.

        Args:
            verdicts: On the commits tested so far.
            cost: The cost of testing a commit, in any unit; above 0.
            count: How many are tested at once.

        Raises:
            ContradictionError: The verdicts leave nothing.
        """
        suspects = self._suspects(verdicts)
        total = suspects.bit_count()
        places = self._telling(verdicts, suspects)
        told_nothing = (self._numbers[name] for name, verdict in verdicts.items() if verdict is Verdict.SKIP)
        skipped = [weight for number in told_nothing if 0 < (weight := self._weight(number, suspects)) < total]
        limit = self._limit(verdicts, total, count)
        width = total / (count + 1)
        chosen: list[int] = []
        reached = 0
        for turn in range(1, count + 1):
            left = {number: weight for number, weight in places.items() if weight > reached}
            allowed = {
                number: weight
                for number, weight in left.items()
                if total - (count + 1 - turn) * limit <= weight <= reached + limit
            }
            if not left:
                break

            def price(number: int, turn: int = turn) -> tuple[float, float]:
                away = abs(places[number] - turn * width) / width
                telling = (1 - away**2) * _testable(places[number], skipped, total) if away < 1 else 0.0
                return cost(self._names[number]) / telling if telling else float("inf"), away

            best = min(allowed or left, key=price)
            chosen.append(best)
            reached = places[best]
        return tuple(self._names[number] for number in chosen)

    def _telling(self, verdicts: Mapping[str, Verdict], suspects: int) -> dict[int, int]:
        """Return the weights of the commits worth testing: their verdict would leave some suspects, not all."""
        untried = (number for number, name in enumerate(self._names) if name not in verdicts)
        weights = {number: self._weight(number, suspects) for number in untried}
        return {number: weight for number, weight in weights.items() if 0 < weight < suspects.bit_count()}

    def _limit(self, verdicts: Mapping[str, Verdict], total: int, count: int) -> int:
        """Return the size that no part of a split may exceed if the bound is to be kept.

        Where it cannot be kept, because of merges or skipped commits, the bound for the remaining suspects counts.
        """
        skips = sum(verdict is Verdict.SKIP for verdict in verdicts.values())
        taken = -(-(len(verdicts) - skips) // count)
        left = max(rounds(len(self._names), count) + skips - taken, rounds(total, count))
        limit: int = (count + 1) ** max(left - 1, 0)
        return limit

    def _suspects(self, verdicts: Mapping[str, Verdict]) -> int:
        suspects = (1 << len(self._names)) - 1
        for name, verdict in verdicts.items():
            behind = self._behind[self._numbers[name]]
            if verdict is Verdict.BAD:
                suspects &= behind
            elif verdict is Verdict.GOOD:
                suspects &= ~behind
            if not suspects:
                raise ContradictionError(name, verdict)
        return suspects

    def _weight(self, number: int, suspects: int) -> int:
        """Return how many suspects are left if this commit is bad."""
        return (self._behind[number] & suspects).bit_count()


def rounds(commits: int, count: int = 1) -> int:
    """Return how many rounds of so many probes side by side find one of n commits: the logarithm, rounded up."""
    needed, reached = 0, 1
    while reached < commits:
        needed, reached = needed + 1, reached * (count + 1)
    return needed


def _testable(weight: int, skipped: Sequence[int], total: int) -> float:
    """Return how likely a commit is to get a verdict, from 0 to 1: commits that do not build come in rows.

    Outside the outermost skipped commits, the middle of the remaining range is unlikely to belong to the row. Between
    two skipped commits any commit may belong to it, and the more of them were found, the more likely this is.

    Args:
        weight: Suspects at and behind the commit.
        skipped: The same of those that were skipped.
        total: All suspects.
    """
    if not skipped:
        return 1.0
    first, last = min(skipped), max(skipped)
    if weight < first:
        return min(1.0, 2 * (first - weight) / first)
    if weight > last:
        return min(1.0, 2 * (weight - last) / (total - last))
    nearest = min(abs(weight - other) for other in skipped)
    return _ENCLOSED * min(1.0, 4 * nearest / total) / len(skipped)
