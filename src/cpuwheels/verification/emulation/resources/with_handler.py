"""Run a command whose programs of another machine are emulated, in user and mount namespaces of its own.

    python with_handler.py REGISTRATION COMMAND...

REGISTRATION is a line for binfmt_misc's ``register`` (Documentation/admin-guide/binfmt-misc.rst of Linux). Since Linux
6.7 each user namespace can have a binfmt_misc of its own, and those below it use the same one. Nothing else on the
machine sees the handler, and it is gone with the last process.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

PLACE = Path("/proc/sys/fs/binfmt_misc")
REFUSED = 125
"""Exit status if the handler cannot be set up, with the reason as the only line of output."""

_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000  # <linux/sched.h>


class SetupError(Exception):
    """A step that the kernel refused."""


def main(registration: str, command: list[str]) -> None:
    """Replace this process by the command.

    Raises:
        SetupError: The handler cannot be set up, or there is no such command.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    _called(libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS), "a user namespace")
    _write(Path("/proc/self/setgroups"), "deny")
    # Root inside, as no other may mount; outside the user remains who it was.
    _write(Path("/proc/self/uid_map"), f"0 {user} 1")
    _write(Path("/proc/self/gid_map"), f"0 {group} 1")
    if not PLACE.is_dir():
        raise SetupError("this kernel has no binfmt_misc, or its module is not loaded")
    _called(libc.mount(b"none", bytes(PLACE), b"binfmt_misc", 0, None), "a binfmt_misc of its own (Linux 6.7)")
    _write(PLACE / "register", registration)
    try:
        os.execvp(command[0], command)  # noqa: S606  (no shell)
    except OSError as error:
        raise SetupError(f"{command[0]}: {error.strerror}") from error


def _called(result: int, what: str) -> None:
    if result != 0:
        raise SetupError(f"the kernel refuses {what}: {os.strerror(ctypes.get_errno())}")


def _write(path: Path, text: str) -> None:
    try:
        path.write_bytes(text.encode())
    except OSError as error:
        raise SetupError(f"the kernel refuses {path}: {error.strerror}") from error


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2:])
    except SetupError as refused:
        print(refused, file=sys.stderr)
        sys.exit(REFUSED)
