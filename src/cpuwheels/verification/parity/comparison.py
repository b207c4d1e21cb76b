"""What changed between two wheels' parity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.verification.parity.results import WRONG

if TYPE_CHECKING:
    from cpuwheels.verification.parity.results import Parity, Row

CLOSER = 1.25
"""An error counts as changed if its ratio to the limit grew or shrank by this factor, and by `LEAST` of the limit."""

LEAST = 0.02


@dataclass(frozen=True)
class Change:
    """One operator, library and data type that is not as before.

    Attributes:
        before: Its row in the other wheel, if it is there.
        after: Its row in this one, if it is there.
    """

    before: Row | None
    after: Row | None

    @property
    def what(self) -> str:
        """How it changed: ``new``, ``gone``, ``broken``, ``fixed``, ``worse``, ``better``, or ``verdict``."""
        if self.before is None:
            return "new"
        if self.after is None:
            return "gone"
        was, now = self.before.verdict in WRONG, self.after.verdict in WRONG
        if was != now:
            return "broken" if now else "fixed"
        if self.before.verdict != self.after.verdict:
            return "verdict"
        return "worse" if _weight(self.after) > _weight(self.before) else "better"


def _weight(row: Row) -> float:
    """Return a row's error as a share of its limit: none if all is exact, endless if something else is wrong."""
    if row.ratio is None:
        return float("inf") if row.verdict in WRONG else 0.0
    return row.ratio


def changes(before: Parity, after: Parity) -> list[Change]:
    """Return what has changed, by operator, library and data type.

    If the runs asked for different cases, by level or operator, the cases that both have are compared.
    """
    if (before.level, before.only) == (after.level, after.only):
        old, new = _rows(before), _rows(after)
        keys = old.keys() | new.keys()
    else:
        old, new = _rows(_common(before, after)), _rows(_common(after, before))
        keys = old.keys() & new.keys()
    found = [Change(old.get(key), new.get(key)) for key in sorted(keys)]
    return [change for change in found if _changed(change)]


def _rows(parity: Parity) -> dict[tuple[str, str, str], Row]:
    return {(row.operator, row.library, row.dtype): row for row in parity.rows}


def _common(parity: Parity, other: Parity) -> Parity:
    """Return a run with only the cases that another run has too."""
    names = {(library, case.name) for library, case in other.cases}
    libraries = [
        library.model_copy(
            update={"cases": tuple(case for case in library.cases if (library.name, case.name) in names)}
        )
        for library in parity.libraries
    ]
    return parity.model_copy(update={"libraries": tuple(libraries)})


def _changed(change: Change) -> bool:
    before, after = change.before, change.after
    if before is None or after is None or before.verdict != after.verdict:
        return True
    if before.ratio is None or after.ratio is None:
        return before.ratio is not after.ratio
    low, high = sorted((before.ratio, after.ratio))
    return high > low * CLOSER and high - low > LEAST
