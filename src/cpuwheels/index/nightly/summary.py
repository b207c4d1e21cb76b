"""What became of each wheel of a nightly job."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

from rich.text import Text

from cpuwheels.core.models import Strict
from cpuwheels.core.progress import clock
from cpuwheels.core.tables import Column, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

State = Literal["published", "built", "there", "wrong", "failed", "postponed"]
"""Published now, left to the publisher, published before, a test of it failed, not made, or left for the next run."""

FAULTS: frozenset[State] = frozenset({"wrong", "failed"})

_STYLES: dict[State, str] = {
    "published": "green",
    "built": "green",
    "there": "dim",
    "wrong": "bold red",
    "failed": "red",
    "postponed": "yellow",
}
_SIGNS: dict[State, str] = {
    "published": "✅",
    "built": "✅",
    "there": "✔",
    "wrong": "❌",
    "failed": "❌",
    "postponed": "⏸",
}


class Outcome(Strict):
    """What became of one wheel."""

    source: str
    """Full hash of a commit, or version of a release."""
    target: str
    state: State
    reason: str = ""
    """Why, for people; empty if it was published."""
    seconds: float = 0.0
    attempts: int = 0
    wheel: str = ""
    """File name."""
    kept: str = ""
    """Folder of a wheel that was not published, and of what went wrong."""


class SecondBuild(Strict):
    """What became of the second build of one wheel."""

    source: str
    """As an outcome has it."""
    target: str
    state: Literal["reproduced", "differs", "postponed", "failed"]
    """The same bytes, others, left for another night, or there was no second wheel."""
    text: str
    """More of it, for people."""
    seconds: float = 0.0


class Summary(Strict):
    """What became of a nightly job."""

    format: Literal[1] = 1
    began: str
    """ISO 8601, UTC."""
    seconds: float
    index: str
    """Where the wheels are published."""
    outcomes: tuple[Outcome, ...]
    removed: tuple[str, ...] = ()
    """Commits whose wheels were too old to be kept."""
    second_build: SecondBuild | None = None
    """None if it was nobody's turn."""

    def count(self, *states: State) -> int:
        """Return how many wheels have one of some states."""
        return sum(outcome.state in states for outcome in self.outcomes)

    def as_line(self) -> str:
        """Return it in one line."""
        names: tuple[State, ...] = ("published", "built", "there", "wrong", "failed", "postponed")
        parts = [f"{count} {name}" for name in names if (count := self.count(name))]
        return f"{', '.join(parts) or 'nothing to do'} in {clock(self.seconds)}"

    def as_json(self) -> str:
        """Return it as JSON."""
        return json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"

    def as_markdown(self) -> str:
        """Return it as Markdown, for ``$GITHUB_STEP_SUMMARY``."""
        lines = [f"## Nightly wheels: {self.as_line()}", ""]
        lines += ["| source | target | | time | |", "|---|---|---|--:|---|"] if self.outcomes else []
        lines += [_row(outcome) for outcome in self.outcomes]
        if second := self.second_build:
            text = second.text.replace("\n", " ")
            lines += ["", f"Second build of `{second.source[:9]}` {second.target}: **{second.state}**: {text}"]
        return "\n".join([*lines, ""])


def outcome_table(summary: Summary) -> Table:
    """Return a table of the wheels, for the terminal."""
    short = (Column("source"), Column("target"), Column("state"), Column("time", right=True))
    table = Table((*short, Column("", prose=True)))
    for one in summary.outcomes:
        seconds = clock(one.seconds) if one.seconds else ""
        state = Text(one.state, style=_STYLES[one.state])
        table.add_row(one.source[:9], one.target, state, seconds, one.reason or one.wheel)
    return table


def _row(outcome: Outcome) -> str:
    reason = outcome.reason.replace("|", "\\|").replace("\n", " ")
    shown = f"{_SIGNS[outcome.state]} {outcome.state}"
    seconds = clock(outcome.seconds) if outcome.seconds else ""
    return f"| `{outcome.source[:9]}` | {outcome.target} | {shown} | {seconds} | {reason or outcome.wheel} |"


def worst(outcomes: Sequence[Outcome]) -> State | None:
    """Return the state that decides how a job ended: wrong before failed before postponed."""
    order: tuple[State, ...] = ("wrong", "failed", "postponed")
    states = {outcome.state for outcome in outcomes}
    return next((state for state in order if state in states), None)
