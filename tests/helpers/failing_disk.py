"""A disk that refuses one of the operations that write to it."""

from __future__ import annotations

import errno
import io
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CALLS = ("mkdir", "replace", "rename", "link", "symlink", "fsync", "chmod", "open")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class FailingDisk:
    """Counts what writes below a folder.

    Args:
        folder: The folder.
        number: Errno of the refusal.
        at: Which operation is refused, from 0; all after it, too, if ``lasting``.
        lasting: Whether the disk stays like that.
    """

    def __init__(self, folder: Path, number: int, at: int, *, lasting: bool = False) -> None:
        self.folder, self.number, self.at, self.lasting = os.fspath(folder), number, at, lasting
        self.count = 0

    def refuse(self, path: object) -> None:
        if isinstance(path, int):
            path = Path(f"/proc/self/fd/{path}").readlink()
        if not os.fspath(path).startswith(self.folder):  # type: ignore[call-overload]
            return
        self.count += 1
        if self.count - 1 == self.at or (self.lasting and self.count > self.at):
            raise OSError(self.number, os.strerror(self.number), path)

    @property
    def refused(self) -> bool:
        return self.count > self.at


@contextmanager
def failing(disk: FailingDisk) -> Iterator[FailingDisk]:
    """Let a disk refuse for as long as the block lasts."""
    before = {name: getattr(os, name) for name in CALLS}
    opened = io.open

    def refusing(name: str) -> Any:
        def call(path: Any, *arguments: Any, **options: Any) -> Any:
            flags = arguments[0] if arguments else options.get("flags", 0)
            if name != "open" or flags & WRITING or disk.number == errno.EMFILE:
                disk.refuse(path)
            return before[name](path, *arguments, **options)

        return call

    def refusing_open(path: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if not isinstance(path, int) and (set(mode) & set("wax+") or disk.number == errno.EMFILE):
            disk.refuse(path)
        return opened(path, mode, *arguments, **options)

    try:
        for name in CALLS:
            setattr(os, name, refusing(name))
        io.open = refusing_open  # type: ignore[assignment]
        yield disk
    finally:
        for name, call in before.items():
            setattr(os, name, call)
        io.open = opened
