"""The comparison as files, as a page, and as a short table for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.core.progress import clock
from cpuwheels.core.tables import Column, Table
from cpuwheels.core.templates import templates
from cpuwheels.core.units import format_size
from cpuwheels.verification.parity.reports import write_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Sized
    from pathlib import Path

    from cpuwheels.pipeline.comparison.result import BinaryChange, Comparison, ListChange

JSON, HTML = "comparison.json", "comparison.html"

MARKS = {"added": "+", "removed": "−", "changed": "≠", "same": "="}  # noqa: RUF001  (a minus sign is as wide as a plus)
_JOBS = 25
"""Jobs on the page; the JSON file has all."""


def write_comparison(folder: Path, comparison: Comparison) -> list[Path]:
    """Write ``comparison.html`` and, last, ``comparison.json``, each in one rename.

    Raises:
        StoreError: The folder cannot be written.
    """
    return write_files(folder, {HTML: comparison_page(comparison), JSON: comparison.model_dump_json(indent=1) + "\n"})


def comparison_page(comparison: Comparison) -> str:
    """Return the page's text."""
    environment = templates("cpuwheels.pipeline")
    environment.filters |= {"delta": size_delta}
    times = comparison.times
    return environment.get_template("comparison/comparison.html.j2").render(
        comparison=comparison,
        before=comparison.before,
        after=comparison.after,
        marks=MARKS,
        counts=_counts(comparison),
        jobs=[job for job in times.jobs if job.before != job.after][:_JOBS] if times else [],
    )


def comparison_table(comparison: Comparison) -> Table:
    """Return a table for the terminal: one row for each part and each library, without what is the same."""
    before, after = comparison.before, comparison.after
    table = Table((Column(""), Column("", prose=True)))
    table.add_row("wheel", _sizes(before.size, after.size))
    table.add_row("unpacked", _sizes(before.unpacked, after.unpacked))
    table.add_row("files", _counts(comparison))
    for binary in comparison.binaries:
        if not binary.same:
            table.add_row(binary.path, ", ".join([_sizes(binary.before, binary.after), *_symbols(binary)]))
    for name, changes in (
        ("metadata", comparison.metadata),
        ("operators", comparison.operators),
        ("flags", comparison.flags),
    ):
        if changes is not None:
            table.add_row(name, _fields(changes))
    if comparison.inputs is not None:
        table.add_row("inputs", ", ".join(change.name for change in comparison.inputs) or "the same")
    if times := comparison.times:
        cached = [f"{one.cached} of {one.jobs}" for one in (times.before, times.after)]
        spent = [clock(one.cpu_seconds) for one in (times.before, times.after)]
        table.add_row("CPU time", f"{' → '.join(spent)}; {' and '.join(cached)} jobs were cached")
    return table


def size_delta(before: int | None, after: int | None) -> str:
    """Return how a size changed: bytes with their unit, and per cent."""
    if before is None:
        return "new"
    if after is None:
        return "gone"
    if before == after:
        return "same size"
    sign = "+" if after > before else "−"  # noqa: RUF001
    share = f" ({sign}{abs(after - before) / before:.1%})" if before else ""
    return f"{sign}{format_size(abs(after - before))}{share}"


def _counts(comparison: Comparison) -> str:
    found = [change.change for change in comparison.files]
    parts = [f"{found.count(kind)} {kind}" for kind in ("added", "removed", "changed") if kind in found]
    return ", ".join(parts) or "the same"


def _symbols(binary: BinaryChange) -> list[str]:
    if binary.before is None or binary.after is None:
        return []
    kinds = {
        "exported": (binary.exported_added, binary.exported_removed),
        "undefined": (binary.undefined_added, binary.undefined_removed),
    }
    return [f"{kind} {_numbers(added, removed)}" for kind, (added, removed) in kinds.items() if added or removed]


def _fields(changes: Iterable[ListChange]) -> str:
    parts = [f"{change.name} {_numbers(change.added, change.removed)}" for change in changes]
    return ", ".join(parts) or "the same"


def _numbers(added: Sized, removed: Sized) -> str:
    return f"+{len(added)} −{len(removed)}"  # noqa: RUF001


def _sizes(before: int | None, after: int | None) -> str:
    shown = " → ".join(format_size(size) for size in (before, after) if size is not None)
    return f"{shown}, {size_delta(before, after)}"
