"""Text as people read it: lists cut to the first few, and nothing in it that a terminal would obey."""

from __future__ import annotations

import json
import unicodedata
from email.parser import Parser
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from email.message import Message


def first_lines(lines: Sequence[str], count: int, where: str = "") -> list[str]:
    """Return the first lines, and one that says how many more there are.

    Args:
        lines: All of them.
        count: How many are shown at most.
        where: Where the others are, such as ``see the log``.
    """
    if len(lines) <= count:
        return list(lines)
    return [*lines[:count], f"and {len(lines) - count} more{f', {where}' if where else ''}"]


def counted(number: int, noun: str) -> str:
    """Return a number of things, such as ``1 wheel`` and ``2 wheels``.

    Args:
        number: How many.
        noun: What one of them is called; more are called that with an s.
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def first_names(names: Sequence[str], count: int) -> str:
    """Return the first names on one line, and how many more there are."""
    more = f" and {len(names) - count} more" if len(names) > count else ""
    return f"{', '.join(names[:count])}{more}"


def printable(text: str) -> str:
    """Return a text from outside as one line that is safe on a terminal.

    Control characters, line ends, marks that change the direction of writing, and what is not a character (a
    surrogate, say) are written as Python would escape them.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or unicodedata.category(one) == "Zs" else _escaped(one) for one in text)


def stable_json(data: object) -> bytes:
    """Return data as JSON that people can read, too: the same bytes for the same data."""
    return (json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def parse_headers(content: bytes) -> Message:
    """Return the headers of a ``METADATA`` or ``WHEEL``; each value is a string, whatever its bytes are."""
    return Parser().parsestr(content.decode(errors="replace"), headersonly=True)
