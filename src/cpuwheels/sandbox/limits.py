"""Limits of a step's processes, as data. A limit is only ever lowered: what the user or the system set stays."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_GIB = 1 << 30


@dataclass(frozen=True)
class Limits:
    """What one process of a step may take; None leaves a limit as it is (setrlimit(2)).

    There is none for the number of processes: the kernel counts it for the user and not for the step, and not at all
    for root.

    Attributes:
        core: Bytes of a core dump; it would have the memory of a process in it.
        file_size: Bytes of a file.
        open_files: Open files.
        cpu_seconds: Seconds of CPU time.
    """

    core: int | None = 0
    file_size: int | None = 64 * _GIB
    open_files: int | None = None
    cpu_seconds: int | None = None

    def lowered(self, now: Callable[[int], tuple[int, int]] = resource.getrlimit) -> dict[int, tuple[int, int]]:
        """Return the soft and the hard limit to set for each resource whose limit is not low enough already.

        Args:
            now: Returns the present soft and hard limit of a resource.
        """
        wanted = {
            resource.RLIMIT_CORE: self.core,
            resource.RLIMIT_FSIZE: self.file_size,
            resource.RLIMIT_NOFILE: self.open_files,
            resource.RLIMIT_CPU: self.cpu_seconds,
        }
        found = {}
        for number, most in wanted.items():
            if most is not None:
                before = now(number)
                soft, hard = (_lower(most, limit) for limit in before)
                if (soft, hard) != before:
                    found[number] = (soft, hard)
        return found


def _lower(most: int, limit: int) -> int:
    # RLIM_INFINITY is the largest number on some systems and -1 on others.
    return most if limit == resource.RLIM_INFINITY else min(most, limit)
