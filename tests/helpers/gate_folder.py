"""A gate for tests: its settings, its launchers, and what its ledger says of them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

MIB = 1 << 20

HOLD = """
import sys, time
size, seconds = int(sys.argv[1]), float(sys.argv[2])
block = bytearray()
for _ in range(25):  # no faster than a compiler grows
    block += b"x" * (size // 25)
    time.sleep(0.04)
time.sleep(seconds)
"""


class Gate:
    """One gate folder with the launchers started through it."""

    def __init__(self, memgate: Path, folder: Path) -> None:
        self.memgate = memgate
        self.folder = folder
        self.ledger = folder / "jobs.jsonl"
        self.jobs: list[subprocess.Popen[str]] = []
        folder.mkdir()
        self.settings()

    def settings(self, *, cpus: object = 2, mib: float = 400, **more: object) -> None:
        values = {"cpus": cpus, "bytes": int(mib * MIB), "unknown_seconds": 1, "unknown_bytes": 50 * MIB, **more}
        text = "".join(f"{name} {value}\n" for name, value in values.items())
        (self.folder / "settings").write_text(text)

    def expect(self, **jobs: tuple[float, float]) -> None:
        """Write the expected seconds and mebibytes of outputs."""
        rows = [f"{seconds} {int(mib * MIB)} {name}\n" for name, (seconds, mib) in jobs.items()]
        (self.folder / "expected").write_text("".join(rows))

    def start(self, *command: object, build: str = "") -> subprocess.Popen[str]:
        arguments = [str(part) for part in (self.memgate, "--gate", self.folder, "--ledger", self.ledger, "--")]
        job = subprocess.Popen(
            [*arguments, *map(str, command)],
            env={**os.environ, "MEMGATE_BUILD": build},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.jobs.append(job)
        return job

    def end(self) -> None:
        """End the launchers that still run, and what is left of their jobs."""
        for job in self.jobs:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
            if job.returncode is None:
                job.communicate()

    def sleep(self, name: str, seconds: float, *, build: str = "") -> subprocess.Popen[str]:
        return self.start("sh", "-c", f"sleep {seconds}", "-o", name, build=build)

    def hold(self, name: str, mib: float, seconds: float) -> subprocess.Popen[str]:
        return self.start(sys.executable, "-c", HOLD, int(mib * MIB), seconds, "-o", name)

    def records(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.ledger.read_text().splitlines()] if self.ledger.exists() else []

    def attempts(self, name: str) -> list[dict[str, object]]:
        return [record for record in self.records() if record["output"] == name]

    def order(self) -> list[object]:
        return [record["output"] for record in sorted(self.records(), key=lambda record: record["start"])]


def finish(*jobs: subprocess.Popen[str], seconds: float = 60) -> list[tuple[int, str]]:
    """Wait for launchers; return each one's status and what it said."""
    ended = []
    for job in jobs:
        _, said = job.communicate(timeout=seconds)
        ended.append((job.returncode, said))
    return ended


def most_together(records: list[dict[str, object]], what: str) -> float:
    """Return the largest sum of a field over jobs that ran at the same time."""
    moments = []
    for record in records:
        start, size = record["start"], 1 if what == "jobs" else record[what]
        # The ledger's start is taken just before the job exists, so ends are moved a little to the front.
        moments += [(start, 1, size), (start + record["wall"] - 0.002, 0, -size)]
    now = most = 0
    for _, _, size in sorted(moments):
        now += size
        most = max(most, now)
    return most
