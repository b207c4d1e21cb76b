"""The page of a batch: which jobs wait, run and are done, and by whom; written anew soon after that has changed."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from cpuwheels.core.concurrency import in_background
from cpuwheels.core.filesystem import make_folders, write_atomic
from cpuwheels.core.templates import templates

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Self

    from cpuwheels.farm.batch import Came
    from cpuwheels.farm.job import Job

PAGE = "farm/index.html"
"""Below the output folder."""

PAUSE_SECONDS = 1.0
"""A browser that has the page open reads it again every ten seconds."""

State = Literal["waiting", "running", "done", "there", "failed", "not begun"]
MARKS: dict[State, tuple[str, str]] = {
    "running": ("changed", "\u25b6"),
    "waiting": ("open", "\u25cb"),
    "failed": ("failed", "\u2717"),
    "not begun": ("not-run", "\u25cb"),
    "done": ("passed", "\u2713"),
    "there": ("passed", "\u2713"),
}
"""Class and shape of each state, in the order in which their numbers are shown."""


@dataclass
class Row:
    """One job.

    Attributes:
        job: The job.
        state: ``there`` is done before; ``not begun`` is a job before which another one failed.
        by: Who does it, or did.
        since: When it began: ISO 8601, UTC; empty if it did not, or is done.
        seconds: It took.
        wheel: Address of its wheel, from the page.
        reason: Why it failed.
    """

    job: Job
    state: State = "waiting"
    by: str = ""
    since: str = ""
    seconds: float = 0.0
    wheel: str = ""
    reason: str = ""


class BatchPage:
    """The page; a context that says at its end that nothing more happens.

    It is written by a thread of its own, so that whoever tells of a job, such as the one thread of a farm's client,
    waits for no disk. One that cannot be written does not end a batch, which then says so itself: the page stays as it
    was.

    Args:
        dist: The output folder.
        jobs: All jobs, in the order in which they are shown.
        pause: Seconds between two pages at least.
    """

    def __init__(self, dist: Path, jobs: Sequence[Job], *, pause: float = PAUSE_SECONDS) -> None:
        self.path = dist / PAGE
        self._rows = {job.key: Row(job) for job in jobs}
        self._began, self._over, self._pause = _now(), False, pause
        self._guard, self._changed = threading.Lock(), threading.Event()
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        self._write()
        self._ends.enter_context(in_background(self._keep_written))
        return self

    def __exit__(self, *_: object) -> None:
        with self._guard:
            self._over = True
            for row in self._rows.values():
                if row.state == "running":
                    row.state, row.since = "waiting", ""
        self._ends.close()
        self._write()

    def _keep_written(self, stop: threading.Event) -> None:
        while not stop.wait(self._pause):
            if self._changed.is_set():
                self._changed.clear()
                self._write()

    def began(self, key: str, by: str) -> None:
        """Note that somebody does a job now; another attempt counts as the one that is shown.

        Args:
            key: Of the job.
            by: Who.
        """
        with self._guard:
            row = self._rows.get(key)
            if row is not None and row.state in {"waiting", "running"} and not self._over:
                row.state, row.by, row.since = "running", by, _now()
        self._changed.set()

    def came(self, came: Came) -> None:
        """Note what came of a job."""
        with self._guard:
            row, done = self._rows[came.job.key], came.done
            row.state, row.since = came.state, ""
            if done is not None:
                row.by, row.seconds = done.by, done.seconds
                row.wheel = f"../{done.folder}/{done.wheel}" if done.wheel else ""
            row.reason = came.error.what if came.error is not None else ""
        self._changed.set()

    def _write(self) -> None:
        with suppress(OSError):
            make_folders(self.path.parent)
            write_atomic(self.path, self.text())

    def text(self) -> str:
        """Return the page; all that is of a source or a worker is escaped."""
        with self._guard:
            rows = [replace(row) for row in self._rows.values()]
        counts = Counter(row.state for row in rows)
        page = templates("cpuwheels.farm").get_template("page.html.j2")
        return page.render(rows=rows, counts=counts, marks=MARKS, began=self._began, now=_now(), over=self._over)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
