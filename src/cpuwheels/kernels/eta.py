"""How long a build will still take, from what its files are expected to cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_TELLING = 0.2
"""Part of the work after which its real speed is a better guide than the expected one."""


class Remaining:
    """The work that is left.

    The longest files come first, so the number of files that are done says little about the time.

    Args:
        seconds: CPU time that each output is expected to take.
        cpus: Jobs at once.
    """

    def __init__(self, seconds: Mapping[str, float], cpus: int) -> None:
        self._left = dict(seconds)
        self._cpus = cpus
        self._whole = sum(self._left.values())

    def done(self, output: str) -> None:
        """Note that an output is there."""
        self._left.pop(output, None)

    def eta(self, elapsed: float) -> float | None:
        """Return the expected seconds to the end, or None if nothing is known of the files.

        Args:
            elapsed: Seconds since the start.
        """
        if self._whole <= 0:
            return None
        part = 1 - sum(self._left.values()) / self._whole
        if part >= _TELLING:
            return elapsed / part - elapsed
        return max(self._whole / self._cpus - elapsed, sum(self._left.values()) / self._cpus * _TELLING)
