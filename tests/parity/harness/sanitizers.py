"""Reports that the run times of sanitizers write to standard error while a case runs."""

from __future__ import annotations

import os
from pathlib import Path

_SIGNS = ("runtime error: ", "Sanitizer: ")


class Reports:
    """A file that gets what this process, and those that it forks, write to standard error.

    All run times write there. Each can be given a file of its own, but of two in one process one then sets the other's.

    Attributes:
        read: How much of the file has been read, in bytes, that of earlier processes included.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.read = path.stat().st_size if path and path.is_file() else 0

    def redirect(self) -> None:
        """Send standard error to the file, if there is one, from now on."""
        if self._path is not None:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.dup2(descriptor, 2)
            os.close(descriptor)

    def new(self) -> str:
        """Return what was written since the last time, if there is a report in it."""
        if self._path is None or not self._path.is_file():
            return ""
        with self._path.open("rb") as stream:
            stream.seek(self.read)
            found = stream.read()
        self.read += len(found)
        text = found.decode(errors="replace")
        return text if any(sign in text for sign in _SIGNS) else ""
