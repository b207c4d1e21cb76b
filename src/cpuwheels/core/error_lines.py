"""An error on the terminal: what is wrong, where, and what to do next are told apart at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from cpuwheels.core.tables import print_wrapped

if TYPE_CHECKING:
    from rich.console import Console

    from cpuwheels.core.errors import CpuwheelsError

_LABELS = {"  where: ": "dim", "  log:   ": "dim", "  next:  ": "bold green"}
"""What the lines of an error begin with, and its style."""


def print_error(console: Console, error: CpuwheelsError, *, head: str = "error: ", style: str = "bold red") -> None:
    """Print an error: on a terminal in colours and broken between words, elsewhere as it is.

    Args:
        console: Where to print.
        error: The error.
        head: In front of what is wrong.
        style: Of the head.
    """
    what, *others = str(error).split("\n")
    print_wrapped(console, Text.assemble((head, style), (what, "bold")), hanging=2)
    for line in others:
        label = next((label for label in _LABELS if line.startswith(label)), "")
        if label:
            text = Text.assemble((label.strip(), _LABELS[label]), " " * (len(label.lstrip()) - len(label.strip())))
            print_wrapped(console, text.append(line.removeprefix(label)), indent=2, hanging=len(label) - 2)
        else:
            # What a program printed keeps its lines.
            console.print(Text(line, style="dim"), soft_wrap=True, highlight=False)
