"""Findings as lines for a person: a mark in front, groups with a heading, addresses whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rich.text import Text

from cpuwheels.core.tables import print_wrapped

if TYPE_CHECKING:
    from rich.console import Console

Mark = Literal["ok", "info", "warn", "fail"]

_MARKS: dict[Mark, tuple[str, str, str]] = {
    "ok": ("✓", "+", "green"),
    "info": ("·", "-", "dim"),
    "warn": ("!", "!", "yellow"),
    "fail": ("✗", "x", "bold red"),
}
"""Sign, sign where the encoding has letters of ASCII only, and style."""

LATER = "see below"
"""In place of what was found: it is printed again, at the end."""


def print_heading(console: Console, title: str) -> None:
    """Print the heading of a group."""
    console.print()
    print_wrapped(console, Text(title), style="bold")


def print_finding(console: Console, mark: Mark, name: str, detail: str = "") -> None:
    """Print one finding; on a terminal it is broken between words, elsewhere it is one line."""
    text = Text.assemble(_sign(console, mark), " ", (name, "bold"), f": {detail}" if detail else "")
    print_wrapped(console, text, hanging=2)


def print_problem(console: Console, mark: Mark, name: str, detail: str, next_step: str) -> None:
    """Print a finding with what the reader can do about it."""
    print_finding(console, mark, name, detail)
    if next_step:
        print_wrapped(console, Text(f"next: {next_step}"), indent=4, style="italic")


def print_verdict(console: Console, mark: Mark, text: str, style: str) -> None:
    """Print the last line, apart from what is above it."""
    console.print()
    print_wrapped(console, Text.assemble(_sign(console, mark), " ", text), hanging=2, style=style)


def _sign(console: Console, mark: Mark) -> tuple[str, str]:
    sign, letter, style = _MARKS[mark]
    return (letter if console.options.ascii_only else sign), style
