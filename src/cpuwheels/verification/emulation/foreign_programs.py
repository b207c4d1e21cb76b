"""Programs of another machine, and those that they start, run on this one: by a handler of Linux's binfmt_misc.

`EmulatedMachine` needs none, as it starts Python alone. A whole root, with a shell and scripts that name their
interpreter, does. Since Linux 6.7 the handler can be registered in a user namespace of the programs' own, without root
and unseen by the rest of the machine.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cpuwheels.core.errors import ToolchainError
from cpuwheels.core.process import run
from cpuwheels.verification.emulation.qemu import find_emulator

if TYPE_CHECKING:
    from cpuwheels.config.context import BuildContext

_SCRIPT = Path(__file__).with_name("resources") / "with_handler.py"
_SYSTEM = Path("/proc/sys/fs/binfmt_misc")
_HANDLER = "cpuwheels"

# <elf.h>: EI_DATA, which is the order of bytes, and e_machine.
_ELF: dict[str, tuple[Literal["little", "big"], int]] = {
    "aarch64": ("little", 183),
    "s390x": ("big", 22),
    "x86_64": ("little", 62),
}
_PIE = 3  # <elf.h> ET_DYN; a program that is not has the number below, ET_EXEC

# F: the emulator is opened now, so that it is found in a root without it. P: programs get the name that they were
# started by; QEMU is told that it comes along. Neither C nor O: nothing in a root is set-uid or cannot be read.
_FLAGS = "PF"


def program_prefix(context: BuildContext, machine: str) -> list[str | Path]:
    """Return what stands before a command, so that it may start programs of another machine.

    They run on the CPU that ``QEMU_CPU`` names in their environment. What stands before it is the pinned emulator in
    namespaces of its own; or nothing, if the kernel refuses these and has a handler of its own already.

    Args:
        context: The run.
        machine: As the kernel names it.

    Raises:
        ToolchainError: Neither can be had.
        DownloadError: The emulator cannot be fetched.
    """
    refused, log = "", context.logs / "foreign-programs.log"
    try:
        prefix: list[str | Path] = [
            sys.executable,
            "-I",
            _SCRIPT,
            registration(machine, find_emulator(context, machine)),
        ]
    except ToolchainError as error:
        refused = error.what
    else:
        tried = run([*prefix, "true"], log=log, check=False)
        if tried.returncode == 0:
            return prefix
        refused = tried.output.rpartition("\n")[2] or f"status {tried.returncode}"
    if handler := registered(machine):
        context.reporter.announce(
            f"programs of {machine} are run by {handler}, which is registered on this machine; the pinned emulator "
            f"cannot be: {refused}"
        )
        return []
    raise ToolchainError(
        f"programs of {machine} do not run on this machine: {refused}",
        where="binfmt_misc",
        log=log if log.exists() else None,
        next_step="use Linux 6.7 or newer with user namespaces, let the administrator register an emulator (Debian "
        f"13's qemu-user-binfmt), or use a machine with {machine}",
    )


def registration(machine: str, emulator: Path) -> str:
    """Return the line that registers an emulator for a machine's programs.

    Args:
        machine: As the kernel names it.
        emulator: A program that needs no other file.
    """
    header = _header(machine)
    mask = bytearray(b"\xff" * len(header))
    # Not compared: the operating system's number, and the bit of the type that a PIE has set and others not.
    mask[7] = 0
    mask[header.rindex(_PIE)] = 0xFE
    magic = bytes(left & right for left, right in zip(header, mask, strict=True))
    return f":{_HANDLER}:M::{_escaped(magic)}:{_escaped(bytes(mask))}:{emulator}:{_FLAGS}"


def registered(machine: str, system: Path = _SYSTEM) -> str:
    """Return the interpreter that this machine has registered for another's programs; empty if there is none.

    One that is not opened at its registration (flag F) is looked for in the root of the program, and does not count.

    Args:
        machine: As the kernel names it.
        system: Where binfmt_misc is mounted.
    """
    status = system / "status"
    if not status.is_file() or status.read_text().strip() != "enabled":
        return ""
    for path in sorted(system.iterdir()):
        if path.name not in {"register", "status"} and (found := _interpreter(path.read_text(), _header(machine))):
            return found
    return ""


def _interpreter(entry: str, header: bytes) -> str:
    """Return the interpreter of one entry of binfmt_misc, if it is for programs that begin so."""
    enabled, *lines = entry.splitlines()
    facts = dict(line.replace(": ", " ", 1).split(" ", 1) for line in lines if " " in line)
    magic = bytes.fromhex(facts.get("magic", ""))
    mask = bytes.fromhex(facts["mask"]) if "mask" in facts else b"\xff" * len(magic)
    compared = bytes(left & right for left, right in zip(header, mask, strict=False))
    fits = enabled == "enabled" and bool(magic) and "F" in facts.get("flags", "") and facts.get("offset") == "0"
    return facts["interpreter"] if fits and compared == magic[: len(header)] else ""


def _header(machine: str) -> bytes:
    """Return how a program of a machine begins: 20 bytes of an ELF header of 64 bits."""
    order, number = _ELF[machine]
    start = b"\x7fELF" + bytes([2, 1 if order == "little" else 2, 1]) + bytes(9)
    return start + _PIE.to_bytes(2, order) + number.to_bytes(2, order)


def _escaped(text: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in text)
