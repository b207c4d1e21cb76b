"""The processes of a server: which they are, and what they left when it has ended."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from cpuwheels.core.models import Strict

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.core.supervised import Child
    from cpuwheels.sandbox.confine import Confined

TOKEN = "CPUWHEELS_SERVER"  # noqa: S105  (a mark, no secret)
"""Variable by which the processes of one server are found, whoever their parent is now.

A process that gives itself a title, as vLLM's engine does, overwrites what it was started with, and this too. It is
found as a descendant of the others."""


class Family:
    """The processes of one server, also those that have left its process group.

    Args:
        token: What marks them.
    """

    def __init__(self, token: str) -> None:
        self.token = token
        self._seen: set[psutil.Process] = set()

    def members(self) -> list[psutil.Process]:
        """Return those that run: the marked ones, their descendants, and what was among these before."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(TOKEN) == self.token:
                    self._seen |= {process, *process.children(recursive=True)}
        self._seen = {each for each in self._seen if each.is_running()}
        return list(self._seen)


class Left(Strict):
    """What a server leaves, as resources/watch_server.py reports it.

    Attributes:
        status: Its exit status, negative for a signal; None if it did not end.
        processes: How many.
        shared: Names of shared memory.
        sockets: How many names of sockets.
    """

    status: int | None
    processes: int = 0
    shared: tuple[str, ...] = ()
    sockets: int = 0


@dataclass(frozen=True)
class Running:
    """A server under way.

    Attributes:
        process: What was started: the server, or what confines it.
        confined: How it was started.
        report: File in which what watches it says what it left.
        watched: Whether that runs: bubblewrap's two processes, then it, then the server.
    """

    process: Child
    confined: Confined
    report: Path
    watched: bool

    def watcher(self) -> psutil.Process:
        """Return what watches the server."""
        return self._descendant(2)

    def program(self) -> psutil.Process:
        """Return the server's first process."""
        return self._descendant(3 if self.watched else 0)

    def _descendant(self, generations: int) -> psutil.Process:
        found = psutil.Process(self.process.pid)
        for _ in range(generations):
            # Those that others left behind came later.
            found = min(found.children(), key=lambda child: (child.create_time(), child.pid))
        return found
