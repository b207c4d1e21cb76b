"""Enter a sandbox and become the command, as a plan says; run by ``python -I -S``, so it imports no other module.

The plan is a JSON file that `cpuwheels.sandbox.confine` writes. With bubblewrap this process becomes bubblewrap, which
makes the namespaces; with Landlock it becomes ``guard.py``.

It runs before each step, so it imports what takes little time.
"""

from __future__ import annotations

import binascii
import json
import os
import resource
import sys

TYPE_CHECKING = False  # importing it takes as long as all the rest
if TYPE_CHECKING:
    from typing import Any, NoReturn

_NS_GET_USERNS = 0xB701  # <linux/nsfs.h>
_STANDARD = 3


def main() -> NoReturn:
    """Read the plan and run the command behind ``--``."""
    with open(sys.argv[1], encoding="utf-8") as stream:  # noqa: PTH123  (pathlib takes as long as all the rest)
        plan: dict[str, Any] = json.load(stream)
    command = sys.argv[3:]
    # Files that an ancestor holds open stay its own.
    os.closerange(_STANDARD, 1 << 20)
    for number, soft, hard in plan["limits"]:
        try:  # noqa: SIM105  (contextlib is one of those that take time)
            resource.setrlimit(number, (soft, hard))
        except (ValueError, OSError):  # macOS refuses some of its own values
            pass
    os.chdir(plan["folder"])
    if plan["bubblewrap"]:
        if plan["network"]:
            _join(plan["network"])
        _run(_bubblewrap(plan, command))
    if plan["landlock"] is not None:
        command = [sys.executable, "-I", "-S", plan["guard"], sys.argv[1], "--", *command]
    _run(command)


def _run(command: list[str]) -> NoReturn:
    try:
        os.execvp(command[0], command)  # noqa: S606  (there is to be none)
    except OSError as error:
        print(f"cannot start {command[0]}: {error.strerror}", file=sys.stderr)
        os._exit(127)


def _bubblewrap(plan: dict[str, Any], command: list[str]) -> list[str]:
    """Return bubblewrap's command line, with open files for what it reads from descriptors."""
    options: list[str] = []
    for name, text in plan["files"].items():
        options += ["--ro-bind-data", _held(text.encode()), name]
    if plan["filter"]:
        options += ["--seccomp", _held(binascii.a2b_base64(plan["filter"]))]
    return [plan["bubblewrap"], *plan["namespaces"], *options, *plan["mounts"], "--", *command]


def _join(network: str) -> None:
    """Join a network namespace, by way of the user namespace that it belongs to."""
    import ctypes  # noqa: PLC0415  (few steps have one)
    import fcntl  # noqa: PLC0415

    libc = ctypes.CDLL(None, use_errno=True)

    def called(result: int, what: str) -> None:
        if result != 0:
            _refuse(f"it cannot join {what}: {os.strerror(ctypes.get_errno())}")

    try:
        handle = os.open(network, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        _refuse(f"the network is gone: {error.strerror}")
    if os.fstat(handle).st_ino == os.stat("/proc/self/ns/net").st_ino:  # noqa: PTH116  (as above)
        _refuse("the network is that of this machine")
    owner = fcntl.ioctl(handle, _NS_GET_USERNS)
    if os.fstat(owner).st_ino != os.stat("/proc/self/ns/user").st_ino:  # noqa: PTH116  (as above)
        called(libc.setns(owner, 0), "a user namespace")
    called(libc.setns(handle, 0), "a network namespace")
    os.close(owner)


def _refuse(why: str) -> NoReturn:
    print(f"the sandbox cannot be entered: {why}", file=sys.stderr)
    os._exit(126)


def _held(content: bytes) -> str:
    handle = os.memfd_create("sandbox", 0)
    os.write(handle, content)
    os.lseek(handle, 0, os.SEEK_SET)
    return str(handle)


if __name__ == "__main__":
    main()
