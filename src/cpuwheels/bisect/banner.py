"""The result of a bisection as the last lines on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.rule import Rule
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console

    from cpuwheels.bisect.result import Outcome


def print_banner(outcome: Outcome, console: Console) -> None:
    """Print the result: between two rules on a terminal, and elsewhere the lines alone.

    No line is broken by this program, so that hashes and the command that reproduces the result can be copied.
    """
    first, *others = outcome.as_lines()
    style = "bold red" if outcome.found else "bold yellow"
    if console.is_terminal:
        console.print(Rule(style=style))
    for line, look in ((first, style), *((line, "") for line in others)):
        console.print(Text(line, style=look), soft_wrap=True)
    if console.is_terminal:
        console.print(Rule(style=style))
