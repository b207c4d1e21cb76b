"""The distinct instructions of a program, as a disassembler writes them and an assembler reads them. Pure text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Each begins with what is rare, because a library has millions of lines.
_COMMENT = re.compile(rb"(?:# |//|; )[^\n]*")
"""What follows an instruction: ``#`` on x86 (on Arm it begins a number), ``//`` and ``;`` on Arm."""
_PLACE = re.compile(rb"<[^\n]*>")
"""A place in the program, such as ``<name+0x10>``. C++ names may hold angle brackets."""
_NUMBER = re.compile(rb"[0-9](?<![\w%.].)(?:x[0-9a-f]+|[0-9]*)")
_ADDRESS = re.compile(rb"(?<=[\s,])(?:0x)?[0-9a-f]+ (?=<)")
_LEADING = re.compile(rb"[a-z0-9.]+[ \t]+(?=[a-z])")
_UNDECODED = (b".", b"(bad)", b"udf\t")


@dataclass(frozen=True)
class Located:
    """One instruction of a program.

    Attributes:
        address: Where it is.
        shape: Its shape.
    """

    address: int
    shape: bytes


def collect(blocks: Iterable[bytes]) -> dict[bytes, bytes]:
    """Return one instruction of each shape, ready for the assembler.

    The shape is the instruction with its numbers left out: mnemonic, registers, kinds of operands. Numbers
    say where and how much, not which instruction set.

    Args:
        blocks: Whole lines that ``objdump -d --no-addresses --no-show-raw-insn`` writes.
    """
    found: dict[bytes, bytes] = {}
    for block in blocks:
        lines = {line for line in block.split(b"\n") if line.startswith(b"\t")}
        text = readable(b"\n".join(lines))
        shapes = shape(text).split(b"\n")
        found |= dict(zip(shapes, text.split(b"\n"), strict=True))
    # Filling between functions, which objdump abbreviates, and the line that an empty block becomes.
    return {key: text.strip() for key, text in found.items() if text.strip() not in {b"", b"..."}}


def locate(blocks: Iterable[bytes], shapes: frozenset[bytes]) -> Iterator[Located]:
    """Yield every instruction of one of the shapes.

    Args:
        blocks: Whole lines that ``objdump -d --no-show-raw-insn`` writes.
        shapes: As `collect` returns them.
    """
    words = sorted({re.escape(key.split(None, 1)[0]) for key in shapes})
    pattern = re.compile(rb":\t(?:" + b"|".join(words) + rb")(?=[ \t\n])[^\n]*")
    for block in blocks:
        for match in pattern.finditer(block):
            key = shape(readable(_ADDRESS.sub(b"", match.group()[1:])))
            if key in shapes:
                line = block.rfind(b"\n", 0, match.start()) + 1
                yield Located(int(block[line : match.start()], 16), key)


def readable(text: bytes) -> bytes:
    """Return instructions without comments and with every place in the program replaced by the place itself."""
    return _PLACE.sub(b".", _COMMENT.sub(b"", text))


def shape(text: bytes) -> bytes:
    """Return readable instructions without their numbers."""
    return _NUMBER.sub(b"N", text)


def is_decoded(text: bytes) -> bool:
    """Return whether the disassembler knew the instruction; it writes data and what it does not know otherwise."""
    return not text.startswith(_UNDECODED) and b"(bad)" not in text


def apart(text: bytes) -> list[bytes]:
    """Return an instruction with every leading word on a line of its own.

    A compiler fills gaps with prefixes that mean nothing (``data16 cs nopw``). The assembler takes a prefix
    that stands alone, but refuses one that stands there twice.
    """
    lines = []
    while match := _LEADING.match(text):
        lines.append(match.group().strip())
        text = text[match.end() :]
    return [*lines, text]
