"""One job: a command of this program, what names its result, and what it needs of a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from cpuwheels.core.digests import code_digest, file_digest, make_key, tree_digest
from cpuwheels.core.models import Strict

if TYPE_CHECKING:
    from cpuwheels.config.paths import Paths

JobKind = Literal["kernels", "wheel", "parity", "serve", "rebuild"]

PROJECT = ("patches", "cmake", "csrc", "locks", "tests/parity")
"""What of the project's files results depend on, besides the matrix."""

SHOWN = 12
"""Digits of a commit's hash where people read it."""


class Needs(Strict):
    """What a job needs of the machine that does it."""

    can: str
    """What the machine has to be able to do: ``build:x86``, ``test:x86``, ``serve:x86``."""
    memory: int = 0
    """Bytes that the largest single process takes."""
    features: frozenset[str] = frozenset()
    """Features of the CPU, as Linux names them, and ``amx-usable``."""


class Job(Strict):
    """One job of the graph."""

    key: str
    """Names its result: the same key has the same result, whoever makes it."""
    kind: JobKind
    target: str
    source: str
    """Full hash of a commit, or version of a release; of a rebuild the wheel's address with its digest."""
    options: tuple[str, ...] = ()
    """Options of the command."""
    after: tuple[str, ...] = ()
    """Keys of the jobs whose results it uses."""
    needs: Needs
    seconds: float = 0.0
    """How long it is expected to take."""
    priority: float = 0.0
    """Of two jobs that could begin the higher one does."""
    identity: str = ""
    """Of the program and the project that it is for; see `project_identity`."""
    alone: bool = False
    """Whether nothing that other machines made is used: for a second opinion."""

    def __str__(self) -> str:
        """Return the job as people read it."""
        again = " again" if self.alone else ""
        place = urlsplit(self.source).path
        source = place.rpartition("/")[2] if self.kind == "rebuild" else self.source[:SHOWN]
        return f"{self.kind} {self.target} {source}{again}"


def project_identity(paths: Paths) -> str:
    """Return what has to be the same on each machine of a farm: a digest of this program, matrix, patches and locks.

    Args:
        paths: Folders of the run.
    """
    return make_key(
        code=code_digest(), matrix=file_digest(paths.matrix), project=tree_digest(paths.root, list(PROJECT))
    )


def second_opinion(job: Job) -> Job:
    """Return the same job for another machine, which uses nothing that the first one or others made."""
    return job.model_copy(update={"key": make_key(again=job.key), "after": (), "alone": True})
