"""What the benchmark found, as it is written to JSON and read back."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from pydantic import Field, ValidationError

from cpuwheels.core.errors import UsageError
from cpuwheels.core.filesystem import storage_errors, write_atomic
from cpuwheels.core.models import Strict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

UNSTEERED, OURS = "cold/unsteered", "cold/ours"
EDIT_UNSTEERED, EDIT = "edit/unsteered", "edit/ours"
PYTHON, NOOP = "python/ours", "noop/ours"
OPEN, EDIT_OPEN, PYTHON_OPEN = "cold/unsandboxed", "edit/unsandboxed", "python/unsandboxed"
SANDBOX_PAIRS = (
    ("cold", OURS, OPEN),
    ("one C++ file edited", EDIT, EDIT_OPEN),
    ("Python-only change", PYTHON, PYTHON_OPEN),
)
"""What is built with the sandbox and without it: for people, and the keys of both."""

UPSTREAM = "upstream/unsteered"
PARITY_SMOKE, PARITY_FULL, PARITY_EMULATED = "parity/smoke", "parity/full", "parity/full and emulated"

CAPS = "caps/"
UNCAPPED = f"{CAPS}none"


class Measured(Strict):
    """One run of one thing. Seconds and bytes throughout."""

    began: str
    """UTC."""
    project: str = ""
    """Our own version, with the commit of a checkout."""
    others_cpu: float
    """CPU seconds that the machine spent meanwhile on anything else, time taken by a hypervisor included."""
    pace: float | None = None
    """CPU seconds of a small fixed task meanwhile, the mean. None in results of an older benchmark."""
    wall: float
    """The whole command; without steering, configuring and building together."""
    kernels: float | None
    """The part of it that configures, compiles and links; None if not known."""
    cpu: float
    """User and system time of every process."""
    jobs_cpu: float
    """The part of it that compilers and linkers took."""
    jobs: int
    """How many times a compiler or linker ran."""
    largest_job: int
    """Peak of the largest one."""
    peak: int
    """Largest proportional set size of all processes together that was seen."""
    group_peak: int | None
    """Peak of the control group that they ran in, as the kernel counts it: with file cache. None without a group."""
    gate_peak: int | None = None
    """What compilers and linkers held together, as memgate saw it every 50 ms; None without a gate."""
    cap: int | None = None
    """Memory cap of the build; None without one."""
    held: str = ""
    """What enforced the cap."""
    sandbox: str = ""
    """What confined upstream's code; empty for upstream's side."""
    stages: dict[str, float] = Field(default_factory=dict)
    """Wall time of each stage that the command reported."""


class Machine(Strict):
    """Where it was measured."""

    processor: str
    cpus: int
    memory: int
    system: str


class Subject(Strict):
    """What was built; runs of different subjects are never compared."""

    target: str
    version: str
    source: str
    """Digest of upstream's sources."""
    compiler: str
    torch: str
    onednn: str
    built: str
    """Key of the inputs of both sides: patched sources, compiler, environment, oneDNN, upstream's options."""
    beside_source: str
    """Key of everything that our kernels depend on, except the sources: steering, toolchain, torch, oneDNN, flags."""

    def unsteered(self) -> Subject:
        """Return the part that upstream's side is of."""
        return self.model_copy(update={"beside_source": ""})


class Sizes(Strict):
    """Bytes of the modules by name, and of the wheel."""

    unsteered: dict[str, int] = Field(default_factory=dict)
    """As built; upstream does not strip."""
    stripped: dict[str, int] = Field(default_factory=dict)
    """A stripped copy of the same."""
    ours: dict[str, int] = Field(default_factory=dict)
    """As they are in the wheel, unpacked, with the library that several of them share."""
    wheel: int | None = None


class Results(Strict):
    """Everything measured so far."""

    format: int = 1
    machine: Machine
    subject: Subject
    runs: dict[str, list[Measured]] = Field(default_factory=dict)
    """By the kind of run: a mode and a side, or a mode and a cap. Several with ``--repeat``."""
    sizes: Sizes = Sizes()

    def value(self, key: str, pick: Callable[[Measured], float | None]) -> float | None:
        """Return the median of one figure over the repetitions of a run, or None if it was not measured."""
        found = [figure for run in self.runs.get(key, []) if (figure := pick(run)) is not None]
        return statistics.median(found) if found else None

    def most(self, key: str, pick: Callable[[Measured], float | None]) -> float | None:
        """Return the largest of one figure over the repetitions of a run, or None if it was not measured."""
        return max((figure for run in self.runs.get(key, []) if (figure := pick(run)) is not None), default=None)

    def uncapped(self) -> str:
        """Return the key of the run that capped ones are compared with: their own, else the cold one."""
        return UNCAPPED if self.runs.get(UNCAPPED) else OURS

    def caps(self) -> list[str]:
        """Return the keys of the capped runs, the smallest cap first."""
        found = [key for key in self.runs if key.startswith(CAPS) and key != UNCAPPED and self.runs[key]]
        return sorted(found, key=lambda key: self.runs[key][0].cap or 0)

    def with_run(self, key: str, run: Measured) -> Results:
        """Return the results with one more run."""
        return self.model_copy(update={"runs": self.runs | {key: [*self.runs.get(key, []), run]}})

    def unsteered(self, subject: Subject) -> Results:
        """Return only the runs of upstream's side, to be compared with another steering of ours."""
        kept = {key: self.runs[key] for key in (UNSTEERED, EDIT_UNSTEERED) if key in self.runs}
        sizes = Sizes(unsteered=self.sizes.unsteered, stripped=self.sizes.stripped)
        return self.model_copy(update={"subject": subject, "runs": kept, "sizes": sizes})

    def without(self, key: str) -> Results:
        """Return the results without the runs of one key."""
        return self.model_copy(update={"runs": {name: runs for name, runs in self.runs.items() if name != key}})


def write_results(path: Path, results: Results) -> None:
    """Write the results in one rename.

    Raises:
        StoreError: The folder cannot be written.
    """
    with storage_errors(path.parent):
        write_atomic(path, results.model_dump_json(indent=1) + "\n")


def read_results(path: Path) -> Results:
    """Read results that an earlier run wrote.

    Raises:
        UsageError: They are not there, or another version of the benchmark wrote them.
    """
    try:
        return Results.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise UsageError(
            f"cannot continue from {path.name}: {error}",
            where=path,
            next_step="name the results with --json, or leave out --resume",
        ) from error
