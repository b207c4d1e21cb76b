"""Run a command below Landlock and a filter of system calls, as a plan says, and guard it; run by ``enter.py``.

It stays as the parent: what the command left running is ended when the command ends, and everything ends when this
process is told to.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import os
import signal
import struct
import sys
import time
from typing import Any, NoReturn

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 24, 38  # <linux/prctl.h>
_PR_SET_SECCOMP, _PR_SET_SECUREBITS, _PR_SET_CHILD_SUBREAPER, _PR_CAP_AMBIENT = 22, 28, 36, 47
_SECCOMP_MODE_FILTER, _PR_CAP_AMBIENT_CLEAR_ALL, _SECBITS_NO_ROOT = 2, 4, 0x0F
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION = 0x20080522  # <linux/capability.h>
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every machine
_PATH_BENEATH = 1  # <linux/landlock.h>: LANDLOCK_RULE_PATH_BENEATH


def main() -> NoReturn:
    """Read the plan and run the command behind ``--``."""
    with open(sys.argv[1], encoding="utf-8") as stream:  # noqa: PTH123  (pathlib takes as long as all the rest)
        plan: dict[str, Any] = json.load(stream)
    _guard(plan, sys.argv[3:])


def _guard(plan: dict[str, Any], command: list[str]) -> NoReturn:
    """Run the command, and end with it, as it ended."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _end_all)
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        try:
            _restrict(plan)
        except OSError as error:
            _refuse(f"the sandbox cannot be entered: {error}", 126)
        try:
            os.execvp(command[0], command)  # noqa: S606  (there is to be no shell)
        except OSError as error:
            _refuse(f"cannot start {command[0]}: {error.strerror}", 127)
    status = _wait_for(child)
    _end_children()
    if os.WIFSIGNALED(status):
        with contextlib.suppress(OSError):  # SIGKILL has no other meaning
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(parent, os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _refuse(why: str, status: int) -> NoReturn:
    print(why, file=sys.stderr)
    os._exit(status)


def _wait_for(child: int) -> int:
    while True:
        ended, status = os.wait()
        if ended == child:
            return status


def _end_all(number: int, _: object) -> NoReturn:
    _end_children()
    os._exit(128 + number)


def _end_children() -> None:
    """End all descendants: whoever loses its parent becomes a child of this process."""
    while True:
        for child in _children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)


def _children() -> list[int]:
    own, found = str(os.getpid()).encode(), []
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208  (as above)
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stream:  # noqa: PTH123
            if stream.read().rpartition(b")")[2].split()[1] == own:
                found.append(int(name))
    return found


def _restrict(plan: dict[str, Any]) -> None:
    """Give up every privilege and restrict this process to what the plan lets it do."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _drop_capabilities()
    landlock = plan["landlock"]
    attributes = struct.pack("=QQQ", landlock["files"], landlock["network"], landlock["scopes"])[: landlock["size"]]
    ruleset = _call(_CREATE_RULESET, attributes, len(attributes), 0)
    for path, rights in landlock["rules"]:
        handle = os.open(os.fsencode(path), os.O_PATH | os.O_CLOEXEC)
        _call(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, handle), 0)
        os.close(handle)
    _call(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)
    code = base64.b64decode(plan["filter"])
    program = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("@HP", len(code) // 8, ctypes.addressof(program))
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header)


def _drop_capabilities() -> None:
    with contextlib.suppress(OSError):  # at the last capability; at the first without privileges, and then not needed
        for number in range(64):
            _prctl(_PR_CAPBSET_DROP, number)
    with contextlib.suppress(PermissionError):
        _prctl(_PR_SET_SECUREBITS, _SECBITS_NO_ROOT)
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    _call(_CAPSET[os.uname().machine], struct.pack("=Ii", _CAPABILITY_VERSION, 0), struct.pack("=6I", *[0] * 6))


def _prctl(option: int, *arguments: int | bytes) -> None:
    padded = [*arguments, 0, 0, 0, 0][:4]
    words = [part if isinstance(part, bytes) else ctypes.c_ulong(part) for part in padded]
    if _LIBC.prctl(option, *words) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}: {os.strerror(ctypes.get_errno())}")


def _call(number: int, *arguments: int | bytes) -> int:
    words = [part if isinstance(part, bytes) else ctypes.c_long(part) for part in arguments]
    result: int = _LIBC.syscall(ctypes.c_long(number), *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"system call {number}: {os.strerror(ctypes.get_errno())}")
    return result


if __name__ == "__main__":
    main()
