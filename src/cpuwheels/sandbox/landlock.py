"""Landlock (landlock(7)): what a process may do with files, as the rules that the kernel takes."""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cpuwheels.sandbox.view import Places

LEAST = 3
"""The first version under which files outside cannot be cut to nothing (Linux 6.2)."""

WITH_SCOPES = 6
"""The first version that separates signals and abstract sockets (Linux 6.12)."""

_CREATE_RULESET, _ASK_VERSION = 444, 1
_EXECUTE, _WRITE, _READ, _LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _DEVICE_CONTROL = 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _DEVICE_CONTROL
_RIGHTS = {3: (1 << 15) - 1, 5: (1 << 16) - 1}
_NETWORK = {4: 0b11}
_SCOPES = {WITH_SCOPES: 0b11}
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_PUBLIC = ("/etc/passwd", "/etc/group", "/proc")


def landlock_version() -> int:
    """Return the version of Landlock in this kernel; 0 if it has none, or it is turned off."""
    if sys.platform != "linux":
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    found: int = libc.syscall(ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION))
    return max(0, found)


def landlock_rules(places: Places, version: int) -> dict[str, Any]:
    """Return what `cpuwheels.sandbox.resources.enter` makes a ruleset of.

    Args:
        places: What may be read and written. A folder that may only be read, below one that may be written, can be
            written all the same: rights add up.
        version: Of Landlock, at least `LEAST`.
    """
    handled = _of(version, _RIGHTS)
    rules = [(path, handled if writable else _READ | _LIST | _EXECUTE) for path, writable in places.binds.items()]
    rules += [(path, _READ | _WRITE | _DEVICE_CONTROL) for path in _DEVICES]
    rules += [(path, _READ | _LIST) for path in _PUBLIC]
    return {
        "files": handled,
        "network": _of(version, _NETWORK),
        "scopes": _of(version, _SCOPES),
        # Older kernels know fewer fields, and refuse a longer structure only if a field they do not know is set.
        "size": 24,
        "rules": [[path, rights & handled & _possible(path)] for path, rights in rules if Path(path).exists()],
    }


def _of(version: int, by_version: dict[int, int]) -> int:
    return max((mask for least, mask in by_version.items() if version >= least), default=0)


def _possible(path: str) -> int:
    return ~0 if stat.S_ISDIR(os.stat(path).st_mode) else _OF_FILES  # noqa: PTH116  (paths are strings here)
