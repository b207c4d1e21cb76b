"""Byte sizes as people write them."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)


def parse_size(text: str | int) -> int:
    """Return a size such as ``8G``, ``7.5 GiB`` or ``4096`` in bytes; units are powers of 1024.

    Raises:
        ValueError: It is not a size, or not above zero.
    """
    match = _SIZE.fullmatch(str(text).strip())
    if match is None:
        msg = f"{text!r} is not a size such as 8G or 512M"
        raise ValueError(msg)
    if "." in match[1] and not match[2]:
        msg = f"{text!r} has no unit, such as the G in 3.9G"
        raise ValueError(msg)
    size = int(Fraction(match[1]) * _UNITS[match[2].upper()])
    if size <= 0:
        msg = f"{text!r} is not above zero"
        raise ValueError(msg)
    return size


def format_size(size: float) -> str:
    """Return bytes with a binary unit and three digits, such as ``3.86 GiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if round(size) < 1024:  # noqa: PLR2004
            return f"{_three_digits(size)} {unit}"
        size /= 1024
    return f"{_three_digits(size)} TiB"


def _three_digits(number: float) -> str:
    """Write a number with three significant digits, and none of them as an exponent."""
    return f"{number:.0f}" if number >= 999.5 else f"{number:.3g}"  # noqa: PLR2004


ByteSize = Annotated[
    int,
    BeforeValidator(parse_size),
    PlainSerializer(lambda size: size, return_type=int),
    WithJsonSchema({"anyOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "string", "pattern": "^\\d"}]}),
]
"""Bytes, written as a number or with a unit."""
