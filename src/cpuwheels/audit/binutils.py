"""The target's assembler and disassembler, and what its assembler takes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.audit.disassembly import apart
from cpuwheels.core.capture import capture
from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import AuditError
from cpuwheels.core.sealed_entry import entry_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cpuwheels.toolchain.result import Toolchain

EVERYTHING = {"aarch64": ("-mcpu=all",), "arm64": ("-mcpu=all",)}
"""Makes an assembler accept every instruction that it knows, where it does not do so by default."""

_SECONDS = 120
_ERROR = re.compile(r"^[^:\n]+:(\d+): ", re.MULTILINE)


@dataclass(frozen=True)
class Binutils:
    """Programs of the target's toolchain.

    Attributes:
        assembler: Its ``as``.
        objdump: Its ``objdump``.
        machine: What they are for, as ``platform.machine()`` says it.
        digest: Names the toolchain.
    """

    assembler: Path
    objdump: Path
    machine: str
    digest: str = ""

    @classmethod
    def of(cls, toolchain: Toolchain) -> Binutils | None:
        """Return those of a toolchain, if it has both."""
        if toolchain.assembler is None or toolchain.objdump is None:
            return None
        return cls(toolchain.assembler, toolchain.objdump, toolchain.machine, toolchain.digest)

    def names(self) -> list[str]:
        """Return what names both programs: where they are in the stores, wherever these lie, or else their digests."""
        return [entry_file(path) or file_digest(path) for path in (self.assembler, self.objdump)]

    @property
    def objcopy(self) -> Path:
        """The ``objcopy`` next to them."""
        return self.objdump.with_name(self.objdump.name.replace("objdump", "objcopy"))


def refused_instructions(
    instructions: Mapping[bytes, bytes], options: Sequence[str], binutils: Binutils, work: Path
) -> dict[bytes, bytes]:
    """Return the instructions that the assembler refuses, by their shape.

    Args:
        instructions: By their shape.
        options: Of the assembler.
        binutils: Of the target's toolchain.
        work: For what the assembler reads.

    Raises:
        AuditError: It does not know one of the options.
    """
    faulty = _assemble([[text] for text in instructions.values()], options, binutils, work)
    left = {shape: text for number, (shape, text) in enumerate(instructions.items()) if number in faulty}
    faulty = _assemble([apart(text) for text in left.values()], options, binutils, work)
    return {shape: text for number, (shape, text) in enumerate(left.items()) if number in faulty}


def _assemble(
    instructions: Sequence[Sequence[bytes]], options: Sequence[str], binutils: Binutils, work: Path
) -> set[int]:
    """Return the numbers of the instructions, each on one or more lines, of which the assembler refuses a line."""
    if not instructions:
        return set()
    owners = [number for number, lines in enumerate(instructions) for _ in lines]
    source = work / "instructions.s"
    source.write_bytes(b"\n".join(line for lines in instructions for line in lines) + b"\n")
    argv: list[str | Path] = [binutils.assembler, *options, "--no-warn", "-o", work / "instructions.o", source]
    answer = capture(argv, timeout=_SECONDS, both=True)
    lines = [int(number) for number in _ERROR.findall(answer.output)]
    if answer.returncode != 0 and not lines:
        raise AuditError(
            "the assembler cannot check instructions",
            where=" ".join(map(str, argv)),
            output=answer.output,
            next_step="correct march in matrix.yaml: the assembler's manual lists what it knows",
        )
    return {owners[number - 1] for number in lines}
