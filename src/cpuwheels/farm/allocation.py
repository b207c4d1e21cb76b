"""The share of a machine that a batch system has given to this process, where no control group enforces it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

RESERVE = 512 << 20
"""Bytes for the worker itself, whose processes count in the job's memory as builds do."""


@dataclass(frozen=True)
class Allocation:
    """What was given.

    Attributes:
        memory: Bytes for builds; None if nothing is known.
        cpus: CPUs; None if nothing is known.
    """

    memory: int | None = None
    cpus: int | None = None


def allocation(environ: Mapping[str, str]) -> Allocation:
    """Return what the variables of a job say, as sbatch(1) has them: megabytes, and 0 for all that the node has.

    Args:
        environ: Of this process.
    """
    if "SLURM_JOB_ID" not in environ:
        return Allocation()
    cpus = _number(environ, "SLURM_CPUS_ON_NODE")
    megabytes = _number(environ, "SLURM_MEM_PER_NODE") or (_number(environ, "SLURM_MEM_PER_CPU") or 0) * (cpus or 1)
    return Allocation(max(megabytes * (1 << 20) - RESERVE, 1 << 20) if megabytes else None, cpus)


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "")
    return int(text) or None if text.isascii() and text.isdecimal() else None
