"""What a run of many jobs may use: time and disk, asked before each job."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Budget:
    """What a run may use.

    Attributes:
        deadline: Monotonic time after which no job is begun; None for no limit.
        keep_free: Bytes that have to be free on the disk for a job to be begun.
        free: Returns the bytes that are free.
        now: Returns the monotonic time.
    """

    deadline: float | None
    keep_free: int
    free: Callable[[], int]
    now: Callable[[], float] = time.monotonic

    def spent(self) -> str:
        """Return why no further job may be begun; nothing if one may."""
        if self.deadline is not None and self.now() >= self.deadline:
            return "the time is up"
        if self.free() < self.keep_free:
            return "too little of the disk is free"
        return ""
