"""The memory of several processes together, from Linux: proc_pid_stat(5), proc_pid_statm(5), proc_pid_smaps(5).

Read directly, without a library: a build has hundreds of waiting launchers, and measuring must not slow it down.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from cpuwheels.kernels.memory.cgroups import PROC

if TYPE_CHECKING:
    from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_SMALL = (4 << 20) // _PAGE
"""Below this many pages only a process's own pages count, which are much faster to read."""

_PSS = re.compile(rb"^Pss:\s+(\d+) kB$", re.MULTILINE)


def held_below(parent: int, above: int = 0, proc: Path = PROC) -> int:
    """Return the bytes that all processes below one hold, without itself and copies that have yet to start a program.

    The sum of their proportional set sizes: pages that processes share are divided by those who share them. The system
    takes long to compute them (20 ms for a gigabyte), so it is asked only if the sum of the resident sizes, which count
    shared pages every time, exceeds `above`.

    Args:
        parent: Process id.
        above: Bytes; 0 is returned for less.
        proc: The proc file system.
    """
    command = _read(f"{proc}/{parent}/cmdline")
    sizes = {
        child: _pages(f"{proc}/{child}")
        for child in _below(parent, str(proc))
        if not command or _read(f"{proc}/{child}/cmdline") != command
    }
    if sum(resident for resident, _ in sizes.values()) * _PAGE <= above:
        return 0
    return sum(
        own * _PAGE if resident < _SMALL else _proportional(f"{proc}/{child}")
        for child, (resident, own) in sizes.items()
    )


def _below(parent: int, proc: str) -> set[str]:
    children: dict[str, list[str]] = {}
    for name in os.listdir(proc):  # noqa: PTH208  (no path object for each process)
        if name.isdecimal():
            # After the name in brackets, which may hold anything: state and parent.
            fields = _read(f"{proc}/{name}/stat").rpartition(b")")[2].split()
            if len(fields) > 1:
                children.setdefault(fields[1].decode(), []).append(name)
    found: set[str] = set()
    todo = [str(parent)]
    while todo:
        new = [child for child in children.get(todo.pop(), ()) if child not in found]
        found.update(new)
        todo += new
    return found


def _pages(folder: str) -> tuple[int, int]:
    """Return the resident pages of a process and those of its own among them; none if it is gone."""
    fields = _read(f"{folder}/statm").split()
    if len(fields) < 3:  # noqa: PLR2004
        return 0, 0
    resident, shared = int(fields[1]), int(fields[2])
    return resident, max(0, resident - shared)


def _proportional(folder: str) -> int:
    match = _PSS.search(_read(f"{folder}/smaps_rollup"))
    return int(match[1]) << 10 if match else 0


def _read(path: str) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return b""  # it ended meanwhile
    try:
        return os.read(handle, 1 << 16)
    except OSError:
        return b""
    finally:
        os.close(handle)
