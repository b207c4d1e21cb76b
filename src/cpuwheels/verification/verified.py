"""``verify.json``: what a second build of a wheel had otherwise, and whether it gave the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field, StringConstraints
from rich.text import Text as Styled

from cpuwheels.core.errors import ReproducibilityError
from cpuwheels.core.models import Sha256, Strict
from cpuwheels.core.tables import Column, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from cpuwheels.verification.reproducibility import Difference

FORMAT: Final = 1
VERIFY: Final = "verify.json"

_KEPT = 200
"""Differences in the file."""
_SHOWN = 20
_WORD = 400
"""Characters of a value; what lies in a wheel may have any length."""

AxisName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z-]*$", max_length=40)]
Text = Annotated[str, StringConstraints(max_length=2 * _WORD)]


class Differing(Strict):
    """One difference between two wheels; see `cpuwheels.verification.reproducibility.Difference`."""

    member: Text
    what: Text
    detail: Text

    def __str__(self) -> str:
        """Return the difference on one line."""
        return f"{self.member or 'archive'}: {self.what}: {self.detail}"


class Verified(Strict):
    """A comparison of a wheel with one that was built again in other circumstances."""

    format: Literal[1] = FORMAT
    wheel: str
    """File name."""
    sha256: Sha256
    """Of the first wheel."""
    target: str
    moment: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
    """When the second build began: ISO 8601, UTC."""
    seconds: float = Field(ge=0)
    """Of the second build."""
    machine: Text
    varied: dict[AxisName, Text]
    """Axis → from what to what."""
    not_varied: dict[AxisName, Text] = Field(default_factory=dict)
    """Axis that was asked for → why it could not be varied."""
    count: int = Field(default=0, ge=0)
    """Of all differences."""
    differences: tuple[Differing, ...] = Field(default=(), max_length=_KEPT)
    """The first of them."""

    @property
    def reproduced(self) -> bool:
        """Whether both wheels have the same bytes."""
        return self.count == 0

    def as_text(self) -> str:
        """Return the text of ``verify.json``."""
        return self.model_dump_json(indent=1) + "\n"

    def as_sentence(self) -> str:
        """Return the result in a sentence that claims no more than what was varied."""
        if self.reproduced:
            return f"two builds, the same bytes: sha256 {self.sha256}"
        places = "1 place" if self.count == 1 else f"{self.count} places"
        if len(self.varied) == 1:
            return f"two builds that differ in {next(iter(self.varied))} alone give wheels that differ in {places}"
        return f"two builds that differ in {', '.join(self.varied)} give wheels that differ in {places}"

    def as_table(self) -> Table:
        """Return what was varied, and what was not, as a table for the terminal."""
        table = Table((Column("axis"), Column("varied"), Column("", prose=True)))
        for axis, what in self.varied.items():
            table.add_row(axis, Styled("yes", style="green"), what)
        for axis, why in self.not_varied.items():
            table.add_row(axis, Styled("not varied", style="yellow"), why)
        return table


def shortened(axes: Mapping[str, str]) -> dict[str, str]:
    """Return what was varied, or why not, as the file has it: programs that complain may do so at any length."""
    return {axis: " ".join(text.split())[: 2 * _WORD] for axis, text in axes.items()}


def differing(differences: Iterable[Difference]) -> tuple[Differing, ...]:
    """Return the first differences between two wheels, as the file has them."""
    found = []
    for one in differences:
        found.append(Differing(member=one.member[:_WORD], what=one.what[:_WORD], detail=one.detail[:_WORD]))
        if len(found) == _KEPT:
            break
    return tuple(found)


def require_reproduced(verified: Verified, report: Path) -> None:
    """Check that both wheels have the same bytes.

    Raises:
        ReproducibilityError: They differ; the first differences are listed.
    """
    if verified.reproduced:
        return
    lines = [str(one) for one in verified.differences[:_SHOWN]]
    one = len(verified.varied) == 1
    raise ReproducibilityError(
        f"{verified.as_sentence()}, first: {lines[0]}",
        where=report,
        output="\n".join(lines),
        next_step=f"find how {next(iter(verified.varied))} gets into that file"
        if one
        else "name one of the axes with --vary, and see whether it is the one",
    )
