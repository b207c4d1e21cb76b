"""Wrong cases in groups: what has one cause is one line, however many cases show it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.verification.parity.results import WRONG

if TYPE_CHECKING:
    from cpuwheels.verification.parity.results import CaseResult, Parity

_NUMBER = re.compile(r"[-+]?\d+(?:[._,]\d+)*(?:e[-+]?\d+)?|\b(?:nan|inf)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Failures:
    """Wrong cases of the same operators and data type, with problems that differ in numbers alone.

    Attributes:
        operators: What they test.
        dtype: Their data type; empty if their limits do not depend on one.
        verdict: What they are.
        cases: Each with its library, in the order of the results; the first stands for all.
    """

    operators: tuple[str, ...]
    dtype: str
    verdict: str
    cases: tuple[tuple[str, CaseResult], ...]

    @property
    def libraries(self) -> list[str]:
        """Their libraries."""
        return list(dict.fromkeys(library for library, _ in self.cases))


def failures(parity: Parity) -> list[Failures]:
    """Return the groups, the largest first."""
    found: dict[tuple[object, ...], list[tuple[str, CaseResult]]] = {}
    for library, case in parity.cases:
        if case.verdict in WRONG:
            kind = tuple(_NUMBER.sub("N", problem) for problem in case.problems)
            found.setdefault((case.operators, case.dtype, case.verdict, kind), []).append((library, case))
    groups = [
        Failures(cases[0][1].operators, cases[0][1].dtype, cases[0][1].verdict, tuple(cases))
        for cases in found.values()
    ]
    return sorted(groups, key=lambda group: -len(group.cases))
