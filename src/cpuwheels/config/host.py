"""What kind of machine this is, compared with what a target needs."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.core.errors import TargetNotBuiltError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.debian_lock import DebianLock
    from cpuwheels.config.matrix import Matrix, Target

_ALIASES = {"amd64": "x86_64", "x64": "x86_64"}
_ZIG_RUNS_ON = ("Linux", "x86_64")
"""Machines on which a cross build with zig was tested."""


def this_machine() -> tuple[str, str]:
    """Return this machine's system and processor as the matrix names them."""
    machine = platform.machine()
    return platform.system(), _ALIASES.get(machine.lower(), machine)


def is_foreign(target: Target) -> bool:
    """Return whether a target's programs are for another kind of machine than this one."""
    return this_machine() != (target.system, target.machine)


def gnu_triple(target: Target) -> str:
    """Return the prefix that the GNU tools for a target have on other machines."""
    return f"{target.machine}-{target.system.lower()}-gnu"


def runs_here(lock: DebianLock) -> bool:
    """Return whether this machine can run the programs of a lock's packages."""
    return this_machine() == ("Linux", lock.machine)


def own_target(matrix: Matrix) -> Target | None:
    """Return the target for this kind of machine; a ready one comes before a planned one."""
    here = [target for target in matrix.targets if not is_foreign(target)]
    return min(here, key=lambda target: not target.is_ready, default=None)


def check_host(target: Target, root: Path) -> None:
    """Check that a target can be built here: on a machine of its own kind, or on one that its pinned compiler runs on.

    Args:
        target: What is to be built.
        root: The project's folder, with ``locks/``.

    Raises:
        TargetNotBuiltError: The machine is of another kind.
        MatrixError: The lock of its compiler cannot be read.
    """
    if not is_foreign(target):
        return
    machines = [f"{target.system} {target.machine}"]
    if target.zig is not None:
        if this_machine() == _ZIG_RUNS_ON:
            return
        machines.append(" ".join(_ZIG_RUNS_ON))
    if target.toolchain is not None:
        lock = load_lock(root, target.toolchain)
        if runs_here(lock):
            return
        machines.append(f"Linux {lock.machine}")
    raise _wrong_machine(target, "built", machines)


def check_debug_symbols(target: Target) -> None:
    """Check that a target's files can have debug symbols next to them.

    Raises:
        UsageError: Its files are signed as they are linked, so nothing can be taken out of them.
    """
    if target.system == "Darwin":
        raise UsageError(
            f"modules of target '{target.id}' are linked without debug symbols",
            where="--debug-symbols",
            next_step="leave it out",
        )


def check_own_machine(target: Target) -> None:
    """Check that this machine can run a target's kernels itself, as timing them needs.

    Raises:
        TargetNotBuiltError: The machine is of another kind.
    """
    if is_foreign(target):
        raise _wrong_machine(target, "run", [f"{target.system} {target.machine}"])


def _wrong_machine(target: Target, done: str, machines: list[str]) -> TargetNotBuiltError:
    wanted = " or ".join(dict.fromkeys(machines))
    system, machine = this_machine()
    return TargetNotBuiltError(
        f"target '{target.id}' is {done} on {wanted}; this is {system} {machine}",
        where="this machine",
        next_step=f"use a machine with {wanted}",
    )


def markers(target: Target, python: str) -> dict[str, str]:
    """Return the PEP 508 environment of a target for one Python version, such as ``3.11``."""
    return {
        "platform_machine": target.machine,
        "platform_system": target.system,
        "sys_platform": target.system.lower(),
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "os_name": "posix",
    }


def default_target(matrix: Matrix) -> Target:
    """Return the target that is meant when none is named: the first ready one for this machine."""
    ready = [target for target in matrix.targets if target.is_ready]
    here = [target for target in ready if not is_foreign(target)]
    return (here or ready)[0]
