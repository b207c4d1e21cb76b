"""Running the cases with the run times of sanitizers: what these are told, and whose report is whose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.filesystem import storage_errors

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.kernels.sanitizers import Sanitizers

_MOST = 16 << 20
"""Characters that are read of reports at once."""


@dataclass(frozen=True)
class SanitizerRun:
    """Sanitizers, and where their run times are.

    Attributes:
        runtimes: Their libraries, in the order in which they are loaded in front of everything else.
        sanitizers: What they are told.
    """

    runtimes: tuple[Path, ...]
    sanitizers: Sanitizers

    def command(self, command: list[str | Path]) -> list[str | Path]:
        """Return what starts Python with the run times in front of everything else.

        Only Python gets them, by the dynamic loader: a variable would reach every program on the way to it, too, and
        these may have an older C library.

        Args:
            command: A dynamic loader with its options and what it starts, or Python itself.
        """
        libraries = ":".join(map(str, self.runtimes))
        if len(command) > 1:
            return [command[0], "--preload", libraries, *command[1:]]
        return ["/usr/bin/env", f"LD_PRELOAD={libraries}", *command]

    def environment(self, folder: Path) -> dict[str, str]:
        """Return the variables of a process that writes its reports into a folder, each run time into its own file.

        Run times know nothing of each other: one would begin the other's file anew.
        """
        return {
            name: f"{options}:log_path={folder / name.partition('_')[0].lower()}"
            for name, options in self.sanitizers.options.items()
        }


def new_folder(work: Path, name: str, number: int) -> Path:
    """Return an empty folder for the reports of a process and of those that it forks.

    Each process has its own: in a sandbox the next one has the same number, and would write over the last one's.
    """
    folder = work / "reports" / f"{name}-{number}"
    with storage_errors(work):
        folder.mkdir(parents=True)
    return folder


def unread(folder: Path, before: Mapping[str, int]) -> str:
    """Return what is in the reports of a folder after so many bytes of each, by their names."""
    found = []
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or not path.is_file():
            continue
        with path.open("rb") as stream:
            stream.seek(before.get(path.name, 0))
            found.append(stream.read(_MOST).decode(errors="replace"))
    return "".join(found)
