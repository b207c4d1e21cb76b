"""One finding of the doctor, and how findings are shown."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cpuwheels.core.errors import CpuwheelsError

Status = Literal["ok", "warn", "fail", "info"]

_STYLES: dict[Status, str] = {"ok": "green", "warn": "yellow", "fail": "bold red", "info": "dim"}


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: What it is.
        status: ``fail`` means that a build cannot succeed, ``warn`` that it can but not as one would wish;
            ``info`` changes nothing.
        detail: What was found.
        next_step: What the reader can do about it; empty when there is nothing to do.
    """

    name: str
    status: Status
    detail: str
    next_step: str = ""


def from_error(name: str, error: CpuwheelsError) -> Check:
    """Return the failed check that an error amounts to."""
    where = f" ({error.where})" if error.where else ""
    return Check(name, "fail", f"{error.what}{where}", error.next_step)


def can_build(checks: Iterable[Check]) -> bool:
    """Return whether nothing found stands in the way of a build."""
    return all(check.status != "fail" for check in checks)


def exit_code(checks: Iterable[Check]) -> int:
    """Return 0 if a build can succeed, else 1."""
    return 0 if can_build(checks) else 1


def as_json(target: str, checks: Sequence[Check]) -> str:
    """Return the findings as JSON text."""
    data = {"target": target, "can_build": can_build(checks), "checks": [asdict(check) for check in checks]}
    return json.dumps(data, indent=2, ensure_ascii=False)


def as_table(target: str, checks: Sequence[Check]) -> Table:
    """Return the findings as a table for a terminal."""
    verdict = "can be built here" if can_build(checks) else "cannot be built here yet"
    table = Table(title=f"{target}: {verdict}", title_justify="left", show_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("check", no_wrap=True)
    table.add_column("found", overflow="fold")
    for check in checks:
        found = Text(check.detail)
        if check.next_step:
            found.append(f"\nnext: {check.next_step}", style="italic")
        table.add_row(Text(check.status, style=_STYLES[check.status]), Text(check.name), found)
    return table
