"""QEMU's user-mode emulation: pinned, and unpacked without root."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.config.host import this_machine
from cpuwheels.core.errors import ToolchainError
from cpuwheels.toolchain.debian_compiler import unpacked_programs

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.context import BuildContext

KIND = "emulators"


def find_emulator(context: BuildContext, machine: str) -> Path:
    """Return the program that runs Linux programs of a machine on this one.

    It executes no instruction that the emulated CPU does not have: QEMU's translator raises the signal for an illegal
    instruction, and of x86's it knows none of AVX-512.

    Args:
        context: The run; its matrix names a Debian lock for each machine that emulators run on.
        machine: As the kernel names it, such as ``x86_64``.

    Raises:
        ToolchainError: None is pinned for this machine, or it does not emulate the other.
        DownloadError: A package cannot be fetched.
    """
    here = f"{platform.machine()} {platform.system()}"
    locks = context.matrix.emulator
    lock = locks.get(platform.machine()) if platform.system() == "Linux" else None
    if lock is None:
        raise ToolchainError(
            f"no emulator is pinned for {here}",
            where="matrix.yaml: emulator",
            next_step="run with --no-emulation; the libraries that this CPU can run are tested all the same"
            if this_machine() == ("Linux", machine)
            else f"use a Linux machine with {machine} or {', '.join(locks) or 'an emulator'}",
        )
    folder = unpacked_programs(context, load_lock(context.root, lock), KIND)
    program = folder / "usr" / "bin" / f"qemu-{machine}"
    if not program.is_file():
        raise ToolchainError(
            f"the packages hold no emulator for {machine}",
            where=program,
            next_step=f"correct locks/{lock}.yaml and run `nox -s lock`",
        )
    return program
