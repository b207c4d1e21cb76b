"""What changed in the locks as a table: for the terminal, and in Markdown for whoever reviews it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.core.tables import Column, Table
from cpuwheels.core.units import format_size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cpuwheels.fetch.locks.changes import Change

COLUMNS = ("package", "old", "new", "age", "source", "licence", "size", "sha256", "locks")
_SHORT = 12
_NONE = "-"


def cells(change: Change, *, short: bool) -> tuple[str, ...]:
    """Return the cells of a row.

    Args:
        change: What changed.
        short: Whether the beginning of the digest is enough.
    """
    digest = change.sha256[:_SHORT] if short else change.sha256
    locks = f"{len(change.locks)} locks" if short and len(change.locks) > 2 else ", ".join(change.locks)  # noqa: PLR2004
    return (
        change.name,
        change.old or _NONE,
        change.new or _NONE,
        _age(change),
        change.source,
        f"{change.licence}{' (changed)' if change.licence_changed else ''}" or "?",
        _size(change),
        digest or _NONE,
        locks,
    )


def terminal_table(changes: Sequence[Change]) -> Table:
    """Return the table for a terminal."""
    table = Table([Column(name) for name in COLUMNS])
    for change in changes:
        table.add_row(*cells(change, short=True))
    return table


def markdown(changes: Sequence[Change], held: Mapping[str, str], notes: Sequence[str]) -> str:
    """Return the page for a pull request.

    Args:
        changes: What changed.
        held: Lock that stays as it is → why.
        notes: How it was resolved.
    """
    lines = ["# Locks", "", *(f"- {note}" for note in notes), ""]
    if changes:
        lines += [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
        lines += [f"| {' | '.join(map(_escaped, cells(change, short=False)))} |" for change in changes]
    else:
        lines.append("Nothing changed.")
    if held:
        lines += ["", "Left as they are, since a package is too young:", ""]
        lines += [f"- `{name}`: {_escaped(why)}" for name, why in held.items()]
    return "\n".join(lines) + "\n"


def _age(change: Change) -> str:
    if not change.new:
        return _NONE
    if change.days is None:
        return "?"
    return f"{'≥ ' if change.least else ''}{int(change.days)} d"


def _size(change: Change) -> str:
    old, new = (format_size(size) if size is not None else "" for size in (change.old_size, change.size))
    return f"{old} → {new}" if old and new and old != new else new or old or "?"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
