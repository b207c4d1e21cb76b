"""The result of a rebuild for people: a page of its own, and lines for the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.templates import templates
from cpuwheels.core.text import first_lines, printable
from cpuwheels.core.units import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cpuwheels.rebuild.members import Compared, MemberDifference
    from cpuwheels.rebuild.statement import RebuildStatement

PAGE = "report.html"
_MEMBERS = 20
_LINES = 6
"""Of one member, on the terminal."""


@dataclass(frozen=True)
class Result:
    """A rebuild that came to its end.

    Attributes:
        statement: What is stated of it.
        compared: What differs; None if the bytes are the same.
        origin: Where the published wheel was.
        sizes: Bytes of the published and of the rebuilt wheel.
        seconds: The build took.
        provenance: Who signed what said how to build it; none if nobody did who counts.
        signed: Id of the key that signed the statement; empty if none did.
        diffoscope: What diffoscope said.
        without_diffoscope: Why it says nothing.
    """

    statement: RebuildStatement
    compared: Compared | None
    origin: str
    sizes: tuple[int, int]
    seconds: float
    provenance: tuple[str, ...] = ()
    signed: str = ""
    diffoscope: str = ""
    without_diffoscope: str = ""

    @property
    def reproduced(self) -> bool:
        """Whether the rebuilt wheel has the same bytes."""
        return self.compared is None

    @property
    def sentence(self) -> str:
        """The result in a sentence that claims no more than was done."""
        subject = self.statement.subject[0]
        if self.compared is None:
            return f"{subject.name} was built again, and the bytes are the same: sha256 {subject.digest['sha256']}"
        places = "1 place" if self.compared.count == 1 else f"{self.compared.count} places"
        return f"{subject.name} was built again, and the bytes differ in {places}"


def report_page(result: Result) -> str:
    """Return the page's text; all that is of the wheel is escaped."""
    details = result.statement.predicate.details
    return (
        templates("cpuwheels.rebuild")
        .get_template("report.html.j2")
        .render(
            result=result,
            statement=result.statement,
            summary=result.statement.predicate,
            details=details,
            subject=result.statement.subject[0],
            differences=result.compared.differences if result.compared else (),
            compared=result.compared,
            stages=stages_of(result),
            heading=heading,
        )
    )


def stages_of(result: Result) -> dict[str, int]:
    """Return how many inputs with a digest each stage of the rebuild had."""
    counts: dict[str, int] = {}
    for one in result.statement.predicate.details.pinned:
        stage = one.stage or "other"
        counts[stage] = counts.get(stage, 0) + 1
    return counts


def heading(one: MemberDifference) -> str:
    """Return the line about a member."""
    if not one.member:
        return "the archive itself"
    if one.where != "both":
        return f"{one.member}: only in the {one.where} wheel, {format_size(one.sizes[0])}"
    sizes = " → ".join(f"{size:,}" for size in one.sizes)
    return f"{one.member}: {sizes} bytes"


def terminal_lines(result: Result) -> Iterator[str]:
    """Yield what is printed of a result."""
    details = result.statement.predicate.details
    yield result.sentence
    yield f"  built by cpuwheels of commit {details.program.commit} (tree {details.program.tree})"
    yield f"  network {details.network}, sandbox: {details.sandbox or 'not known'}"
    pinned = ", ".join(f"{count} {stage}" for stage, count in stages_of(result).items())
    yield f"  pinned by content: {pinned or 'nothing'}"
    who = ", ".join(result.provenance) or "nobody who is trusted: it was believed as it is"
    yield f"  what said how to build it was signed by {who}"
    yield from (f"  note: {remark}" for remark in details.remarks)
    yield f"  the statement is {f'signed by key {result.signed}' if result.signed else 'not signed by this run'}"


def difference_text(result: Result) -> str:
    """Return the first differences, for a message."""
    compared = result.compared
    if compared is None:
        return ""
    lines = [f"otherwise: {line}" for line in result.statement.predicate.details.otherwise[:_MEMBERS]]
    for one in compared.differences[:_MEMBERS]:
        lines.append(heading(one))
        lines += [f"  {line}" for line in first_lines(one.lines, _LINES, "see the report")]
    if compared.count > _MEMBERS:
        lines.append(f"and {compared.count - _MEMBERS} more, see the report")
    return "\n".join(map(printable, lines))
