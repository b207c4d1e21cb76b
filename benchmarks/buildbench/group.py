"""A control group without a limit, for the kernel's own count of what a command needs at most."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.kernels.memory.cgroup_limit import ENTER, count_memory_below, places
from cpuwheels.kernels.memory.cgroups import PROC, read_or_nothing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Not the prefix of the builds' own groups: each build removes what others left of those.
_PREFIX = "bench-cpuwheels-"


@dataclass(frozen=True)
class Counted:
    """A group that a command and all its children run in.

    Attributes:
        prefix: Put in front of the command.
        file: Where the kernel writes the peak.
    """

    prefix: tuple[str, ...]
    file: Path

    def peak(self) -> int | None:
        """Return the most bytes that the group held, file cache included; None if this kernel does not say."""
        text = read_or_nothing(self.file).strip()
        return int(text) if text.isdecimal() else None


@contextlib.contextmanager
def counted(proc: Path = PROC) -> Iterator[Counted | None]:
    """Yield a group that counts a command, or None where none can be made.

    A build makes a limited group of its own inside the one it finds itself in, or next to it: cgroup v2 allows
    no group with processes to have groups with controllers (cgroups(7), "no internal processes"). There the command
    runs in a group within the counted one, so that both are counted.

    Args:
        proc: The proc file system.
    """
    for own, parent in places(proc):
        group = parent / f"{_PREFIX}{os.getpid()}"
        member = group / "command" if own.unified else group
        if _made(group, member, unified=own.unified):
            break
    else:
        yield None
        return
    try:
        file = group / ("memory.peak" if own.unified else "memory.max_usage_in_bytes")
        yield Counted(("/bin/sh", "-c", ENTER, str(member / "cgroup.procs")), file)
    finally:
        _remove(group)


def _made(group: Path, member: Path, *, unified: bool) -> bool:
    try:
        for left in group.parent.glob(f"{_PREFIX}*"):
            _remove(left)
        if unified:
            count_memory_below(group.parent)
        group.mkdir()
        if unified:
            count_memory_below(group)
            member.mkdir()
        if not (member / "cgroup.procs").is_file():
            raise FileNotFoundError
    except OSError:
        _remove(group)
        return False
    return True


def _remove(group: Path) -> None:
    """Remove a group and those in it; the kernel refuses where anything still runs, and the next run tries again."""
    for folder in (*group.glob("*/"), group):
        with contextlib.suppress(OSError):
            folder.rmdir()
