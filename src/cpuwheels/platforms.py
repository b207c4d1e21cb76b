"""What kind of machine this is, compared with what a target needs."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from cpuwheels.errors import TargetNotBuiltError

if TYPE_CHECKING:
    from cpuwheels.model.matrix import Target

_ALIASES = {"amd64": "x86_64", "x64": "x86_64"}


def this_machine() -> tuple[str, str]:
    """Return this machine's system and processor as the matrix names them."""
    machine = platform.machine()
    return platform.system(), _ALIASES.get(machine.lower(), machine)


def is_foreign(target: Target) -> bool:
    """Return whether a target's programs are for another kind of machine than this one."""
    return this_machine() != (target.system, target.machine)


def check_host(target: Target) -> None:
    """Check that a target can be built on this machine.

    Raises:
        TargetNotBuiltError: The machine is of another kind.
    """
    system, machine = this_machine()
    if (system, machine) != (target.system, target.machine):
        raise TargetNotBuiltError(
            f"target '{target.id}' is built on {target.system} {target.machine}; this is {system} {machine}",
            where="this machine",
            next_step=f"build it on a {target.system} {target.machine} machine",
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
