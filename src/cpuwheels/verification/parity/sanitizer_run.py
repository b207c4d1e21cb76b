"""Running the cases with the run times of sanitizers: how these are loaded, and what they have reported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.kernels.sanitizers import Sanitizers

_MOST = 16 << 20
"""Bytes that are read of reports at once."""


@dataclass(frozen=True)
class SanitizerRun:
    """Sanitizers, and where their run times are.

    Attributes:
        folder: The unpacked packages.
        sanitizers: Which of the libraries there are loaded, and what they are told.
    """

    folder: Path
    sanitizers: Sanitizers

    def command(self, command: list[str | Path]) -> list[str | Path]:
        """Return what starts Python with the run times in front of everything else.

        Only Python gets them, by the dynamic loader: a variable would reach every program on the way to it, too, and
        these may have an older C library.

        Args:
            command: A dynamic loader with its options and what it starts, or Python itself.
        """
        libraries = ":".join(str(self.folder / name) for name in self.sanitizers.runtimes)
        if len(command) > 1:
            return [command[0], "--preload", libraries, *command[1:]]
        return ["/usr/bin/env", f"LD_PRELOAD={libraries}", *command]

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables of a process with them."""
        return {name: value.format(folder=self.folder) for name, value in self.sanitizers.options.items()}


def unread(reports: Path, before: int) -> str:
    """Return what is in a file of reports after so many bytes; it may not be there."""
    if reports.is_symlink() or not reports.is_file():
        return ""
    with reports.open("rb") as stream:
        stream.seek(before)
        return stream.read(_MOST).decode(errors="replace")
