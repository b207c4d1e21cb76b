"""Reports that the run times of sanitizers write while a case runs."""

from __future__ import annotations

from pathlib import Path


class Reports:
    """The files of a folder into which this process and those that it forks write reports.

    Attributes:
        read: How much of each file has been read, in bytes, by its name.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self.read: dict[str, int] = {}

    def new(self) -> str:
        """Return what was written since the last time; nothing if no sanitizer is used."""
        if self._folder is None:
            return ""
        found = []
        for path in sorted(self._folder.iterdir()):
            with path.open("rb") as stream:
                stream.seek(self.read.get(path.name, 0))
                text = stream.read()
            self.read[path.name] = self.read.get(path.name, 0) + len(text)
            found.append(text.decode(errors="replace"))
        return "".join(found)
