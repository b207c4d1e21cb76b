"""One finding of the doctor, and what the findings mean together."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cpuwheels.core.errors import CpuwheelsError

Status = Literal["ok", "warn", "fail", "info"]

_COUNTED: tuple[tuple[Status, str], ...] = (("fail", "failure"), ("warn", "warning"))


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: What it is.
        status: ``fail`` means that a build cannot succeed, ``warn`` that it can, but with a drawback; ``info`` changes
            nothing.
        detail: What was found.
        next_step: What the reader can do about it; empty when there is nothing to do.
        group: What it belongs to, for people.
    """

    name: str
    status: Status
    detail: str
    next_step: str = ""
    group: str = ""


def from_error(name: str, error: CpuwheelsError) -> Check:
    """Return the failed check for an error."""
    where = f" ({error.where})" if error.where else ""
    return Check(name, "fail", f"{error.what}{where}", error.next_step)


def can_build(checks: Iterable[Check]) -> bool:
    """Return whether nothing that was found prevents a build."""
    return all(check.status != "fail" for check in checks)


def exit_code(checks: Iterable[Check]) -> int:
    """Return 0 if a build can succeed, else 1."""
    return 0 if can_build(checks) else 1


def as_json(target: str, checks: Sequence[Check]) -> str:
    """Return the findings as JSON text."""
    data = {"target": target, "can_build": can_build(checks), "checks": [asdict(check) for check in checks]}
    return json.dumps(data, indent=2, ensure_ascii=False)


def verdict(target: str, checks: Sequence[Check]) -> str:
    """Return in one line whether a target can be built, and how many failures and warnings there are."""
    counts = {word: sum(check.status == status for check in checks) for status, word in _COUNTED}
    found = ", ".join(f"{count} {word}{'s' * (count > 1)}" for word, count in counts.items() if count)
    can = "can be built here" if can_build(checks) else "cannot be built here yet"
    return f"{target}: {can}{f' ({found})' if found else ''}"
