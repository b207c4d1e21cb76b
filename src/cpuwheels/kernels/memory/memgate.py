"""The folder that memgate's launchers share: the settings that Python writes, and the status that they write."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import ValidationError

from cpuwheels.core.capture import capture
from cpuwheels.core.filesystem import storage_errors, write_atomic
from cpuwheels.core.models import Strict
from cpuwheels.kernels.memory.costs import MARGIN

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.kernels.memory.cgroup_limit import Hold
    from cpuwheels.kernels.memory.costs import Cost


class GateJob(Strict):
    """A job that runs."""

    expected: float
    """CPU seconds that it was expected to take."""
    age: float
    """Seconds since its start."""


class GateStatus(Strict):
    """What the jobs of a build are doing."""

    running: int
    waiting: int
    bytes: int
    """Used by all jobs now."""
    peak_bytes: int
    """The most that all jobs of this build used together."""
    jobs: tuple[GateJob, ...]
    """Those that run."""


@dataclass(frozen=True)
class GateFolder:
    """One gate; ``csrc/memgate/gate.h`` and ``settings.h`` describe its files.

    Attributes:
        folder: Where; it outlives a build, so that a job that an earlier build left behind still counts.
        memgate: The launcher.
        build: Names this run of the build, so that a failed job calls off only jobs of its own run.
    """

    folder: Path
    memgate: Path
    build: str = field(default_factory=lambda: secrets.token_hex(8))

    def launcher(self, ledger: Path, *, note: str | None = None) -> list[str]:
        """Return what is put in front of a compiler or linker command; the same for every run.

        Args:
            ledger: File that gets a line for each job.
            note: Environment variable that is to name a file of the job's own, in which it writes how it went.
        """
        asked = ["--note", note] if note else []
        return [str(self.memgate), "--gate", str(self.folder), "--ledger", str(ledger), *asked, "--"]

    def environment(self) -> dict[str, str]:
        """Return the variables that the launchers read."""
        return {"MEMGATE_BUILD": self.build}

    def write(self, *, cpus: int, room: int, unknown: Cost, held: Hold, expected: Mapping[str, Cost]) -> None:
        """Tell the launchers how much room there is and what each job is expected to need.

        The watch is always on: it stops the newest job with a little room left, before the system would end
        any one of them.

        Raises:
            StoreError: The folder cannot be written.
        """
        values: dict[str, object] = {
            "cpus": cpus,
            "bytes": room,
            "watch": 1,
            "unknown_seconds": unknown.seconds,
            "unknown_bytes": unknown.bytes,
        }
        if held.oom_events is not None:
            values["oom_events"] = held.oom_events
        rows = [f"{cost.seconds} {int(cost.bytes * MARGIN)} {output}\n" for output, cost in expected.items()]
        with storage_errors(self.folder):
            write_atomic(self.folder / "settings", "".join(f"{name} {value}\n" for name, value in values.items()))
            write_atomic(self.folder / "expected", "".join(rows))

    def status(self) -> GateStatus | None:
        """Return what the jobs are doing, or None if the gate has no status."""
        done = capture([self.memgate, "--status", self.folder], timeout=10)
        try:
            return GateStatus.model_validate_json(done.output) if done.returncode == 0 else None
        except ValidationError:
            return None  # another program wrote into the table
