"""Take on the circumstances of a plan and become the command; run by ``python -I -S``, so it imports no other module.

The plan is a JSON file that `cpuwheels.pipeline.variation.second_build` or `cpuwheels.rebuild.closed` writes.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import tempfile
from typing import Any, NoReturn

_NEWNS, _NEWUTS, _NEWUSER, _NEWNET = 0x00020000, 0x04000000, 0x10000000, 0x40000000  # <linux/sched.h>
_BIND, _REC, _PRIVATE = 0x1000, 0x4000, 0x40000  # <linux/mount.h>
_ASK = 0xFFFFFFFF  # personality(2)

_LIBC = ctypes.CDLL(None, use_errno=True)


def main() -> NoReturn:
    """Read the plan and run the command behind ``--``."""
    with open(sys.argv[1], encoding="utf-8") as stream:  # noqa: PTH123  (pathlib takes as long as all the rest)
        plan: dict[str, Any] = json.load(stream)
    command = sys.argv[3:]
    try:
        if plan["cpus"]:
            os.sched_setaffinity(0, plan["cpus"])
        if plan["user"] is not None:
            _enter(plan)
        if plan["personality"]:
            now = _LIBC.personality(ctypes.c_ulong(_ASK))
            _called(min(0, _LIBC.personality(ctypes.c_ulong(now | plan["personality"]))), "personality")
    except OSError as error:
        print(f"{error.strerror}", file=sys.stderr)
        sys.exit(126)
    try:
        os.execvp(command[0], command)  # noqa: S606  (there is to be no shell)
    except OSError as error:
        print(f"cannot start {command[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127)


def _enter(plan: dict[str, Any]) -> None:
    """Make namespaces in which this user has a number, the machine a name, and some paths lead elsewhere."""
    user, group = os.geteuid(), os.getegid()
    network = _NEWNET if plan["closed"] else 0
    _called(_LIBC.unshare(_NEWUSER | _NEWNS | _NEWUTS | network), "unshare")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{plan['user']} {user} 1"),
        ("gid_map", f"{plan['group']} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as stream:  # noqa: PTH123
            stream.write(text)
    if plan["hostname"]:
        name = plan["hostname"].encode()
        _called(_LIBC.sethostname(name, len(name)), "sethostname")
    _called(_LIBC.mount(None, b"/", None, ctypes.c_ulong(_REC | _PRIVATE), None), "mount")
    for path, text in plan["files"].items():
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.chmod(file.name, 0o644)  # noqa: PTH101
            _bind(file.name, path)
    for there, here in plan["binds"]:
        _bind(there, here)


def _bind(there: str, here: str) -> None:
    flags = ctypes.c_ulong(_BIND | _REC)
    _called(_LIBC.mount(os.fsencode(there), os.fsencode(here), None, flags, None), f"mount {here}")


def _called(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    main()
