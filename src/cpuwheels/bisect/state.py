"""A bisection's one file: what was asked and what was found so far, whole after every probe."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from filelock import FileLock, Timeout
from pydantic import ValidationError

from cpuwheels.bisect.search import Verdict
from cpuwheels.core.digests import make_key
from cpuwheels.core.errors import BisectError
from cpuwheels.core.filesystem import storage_errors, write_atomic
from cpuwheels.core.models import Commit, Strict
from cpuwheels.core.parse import LONGEST
from cpuwheels.core.plain_file import read_plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

FORMAT = 1
"""Version of the file's layout; raised when a field changes its meaning."""

STATE = "state.json"

RESULT = "result.json"
"""Written when the bisection has ended."""

WheelFrom = Literal["index", "precompiled kernels", "stored kernels", "build", "farm", "none"]
"""How a probe's wheel was obtained."""


class Question(Strict):
    """What is asked of each commit, and between which commits.

    The same question is the same bisection, which continues where it was stopped.
    """

    target: str
    good: Commit
    bad: Commit
    first_parent: bool
    repository: str
    judge: dict[str, str | float]
    """How a wheel is tested: ``run``, ``parity``, ``bench`` or ``serve`` with what belongs to it."""
    options: tuple[str, ...] = ()
    """Options of the builds that change the wheel."""

    def key(self) -> str:
        """Return the name of the bisection."""
        return make_key(question=self)[:12]


class Probe(Strict):
    """One commit that was tested."""

    commit: Commit
    verdict: Verdict
    reason: str
    """Why, for people."""
    seconds: float
    """From its beginning to its verdict."""
    wheel_from: WheelFrom
    wheel: str = ""
    """File name."""
    sha256: str = ""
    log: str = ""
    """Folder of its logs, below the bisection's."""


class State(Strict):
    """All of a bisection."""

    format: Literal[1] = 1
    question: Question
    probes: tuple[Probe, ...] = ()

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """The verdicts by commit; the last verdict on a commit counts."""
        return {probe.commit: probe.verdict for probe in self.probes}

    def with_probe(self, probe: Probe) -> State:
        """Return the state after one more probe."""
        return self.model_copy(update={"probes": (*self.probes, probe)})


def read_state(folder: Path, question: Question) -> State:
    """Return what a bisection has found so far; nothing if it has not begun.

    Raises:
        BisectError: The file is damaged, of a newer layout, or of another question.
    """
    path = folder / STATE
    try:
        state = State.model_validate_json(read_plain(path, LONGEST))
    except FileNotFoundError:
        return State(question=question)
    except (OSError, ValidationError) as error:
        raise BisectError(
            f"the bisection's file cannot be read: {str(error).splitlines()[0]}",
            where=path,
            next_step="move it away to begin anew",
        ) from error
    if state.question != question:
        raise BisectError(
            "the folder is of another bisection",
            where=path,
            next_step="give another --out, or repeat the command that began it",
        )
    return state


def unfinished(folders: Iterable[Path], question: Question) -> State | None:
    """Return the last bisection between a good end and whichever bad one that has no result yet; None if there is none.

    One whose bad end was not found to be bad is none to go on with.

    Args:
        folders: Of bisections.
        question: All of the question but for the bad end.
    """
    found = []
    for folder in folders:
        path = folder / STATE
        try:
            state, when = State.model_validate_json(read_plain(path, LONGEST)), path.stat().st_mtime
        except (OSError, ValidationError):
            continue
        same = state.question.model_copy(update={"bad": question.bad}) == question
        if same and state.verdicts.get(state.question.bad) is Verdict.BAD and not (folder / RESULT).exists():
            found.append((when, state))
    return max(found, key=lambda one: one[0])[1] if found else None


def write_state(folder: Path, state: State) -> None:
    """Write a bisection's file, in one rename.

    Raises:
        StoreError: The folder cannot be written.
    """
    with storage_errors(folder):
        write_atomic(folder / STATE, state.model_dump_json(indent=1) + "\n")


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other runs of the same bisection out.

    Raises:
        BisectError: One is running.
    """
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise BisectError(
            "this bisection is already running",
            where=folder,
            next_step="wait for it, or end it: the same command then goes on from what it has found",
        ) from error
    try:
        yield
    finally:
        lock.release()
