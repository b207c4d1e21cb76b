"""A place where jobs are done: its folders, its share of the machine, and what it carries to others."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cpuwheels.core.arguments import named_arguments

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.paths import Paths
    from cpuwheels.farm.job import Job

# -P: the working folder is a user's, whose modules are none of this program.
PROGRAM = (sys.executable, "-P", "-m", "cpuwheels")

FARM_VARIABLE, KEYS_VARIABLE = "CPUWHEELS_FARM", "CPUWHEELS_FARM_KEYS"
"""Variables for the options ``--farm`` and ``--farm-keys``; a job does not get them."""


@dataclass(frozen=True)
class Site:
    """Where jobs are done.

    Attributes:
        name: For people.
        paths: Folders to read and write.
        work: Folder of the jobs' own files, each below its key; None if they are done in `paths` itself, where their
            results stay and nothing is carried.
        memory: Cap of a build, as given; what the machine has when None.
        jobs: Upper bound for compilations at once, as given.
        repo: Clone of vLLM; the matrix's repositories when None.
        store: Options of a shared store that builds take kernels from.
        key: File of the private key that signs kernels which are carried; unsigned when None.
        program: The command line of this program.
    """

    name: str
    paths: Paths
    work: Path | None = None
    memory: str | None = None
    jobs: str | None = None
    repo: Path | None = None
    store: tuple[str, ...] = ()
    key: Path | None = None
    program: tuple[str, ...] = PROGRAM

    @property
    def carries(self) -> bool:
        """Whether results are carried to and from other machines."""
        return self.work is not None

    def folder(self, job: Job) -> Path:
        """Return the folder of a job's own files, which need not be there."""
        return (self.work or self.paths.dist / "farm" / "logs") / job.key

    def places(self, job: Job) -> Paths:
        """Return the folders that a job reads and writes: an output folder of its own where results are carried.

        What is done without others' results has stores of its own, too.
        """
        if not self.carries:
            return self.paths
        cache = self.paths.cache
        return replace(
            self.paths,
            dist=self.folder(job) / "dist",
            cache=cache.with_name(f"{cache.name}-alone") if job.alone else cache,
        )

    def build_options(self) -> list[str]:
        """Return the options with which builds are told of this place.

        Where others' jobs are done, upstream's code must not see the certificates: a build needs a sandbox.
        """
        confined = ["--sandbox-required"] if self.carries else []
        return [*self.share_options(), *named_arguments({"--repo": str(self.repo) if self.repo else None}), *confined]

    def share_options(self) -> list[str]:
        """Return the options with which builds are told of this place's share of the machine."""
        return named_arguments({"--memory": self.memory, "--jobs": self.jobs})
