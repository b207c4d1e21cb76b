"""Workers as jobs of SLURM, submitted as an array, replaced when they end, and cancelled with the scheduler.

dask-jobqueue starts dask's workers: its script has no place for another command, and it does not notice that a job has
ended before its worker had joined. So sbatch, squeue and scancel are called from here.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shlex
import time
from typing import TYPE_CHECKING

from cpuwheels.core.errors import FarmError
from cpuwheels.core.filesystem import make_folders, storage_errors
from cpuwheels.farm.slurm_job import job_script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection
    from pathlib import Path

    from cpuwheels.farm.slurm_job import Slurm

ASK_SECONDS = 20.0
"""Between two looks at the queue."""

ATTEMPTS = 3
"""Jobs of one worker that may end one after the other before it has joined."""

_LOOK_SECONDS = 0.5
_CALL_SECONDS = 180.0
_END_SECONDS = 90.0
_SHOWN = 4000


@contextlib.asynccontextmanager
async def jobs_of(
    slurm: Slurm, address: str, keys: Path, known: Callable[[], Collection[str]], tell: Callable[[str], None]
) -> AsyncIterator[Callable[[], None]]:
    """Keep so many jobs in SLURM's queue while the block runs, each with a worker.

    Args:
        slurm: What is asked for.
        address: Of the scheduler.
        keys: Folder of the certificates, which the nodes see.
        known: Returns the names of the workers that the scheduler knows.
        tell: Told of each job that has ended.

    Yields:
        A function that raises `FarmError` if the workers do not start.

    Raises:
        FarmError: SLURM does not take them.
        StoreError: The folder of logs cannot be made.
    """
    with storage_errors(slurm.logs):
        make_folders(slurm.logs)
    jobs = _Jobs(slurm, job_script(slurm, address, keys), known, tell)
    task: asyncio.Task[None] | None = None
    try:
        await jobs.submit(range(1, slurm.workers + 1))
        task = asyncio.create_task(jobs.keep())
        yield lambda: task.result() if task.done() else None
    finally:
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await jobs.cancel()


class _Jobs:
    """The jobs of one farm, by a name that no other job has."""

    def __init__(
        self, slurm: Slurm, script: str, known: Callable[[], Collection[str]], tell: Callable[[str], None]
    ) -> None:
        self._slurm, self._script, self._known, self._tell = slurm, script, known, tell
        self._name = f"cpuwheels-farm-{secrets.token_hex(6)}"
        self._there: set[tuple[str, int]] = set()
        self._joined: set[tuple[str, int]] = set()
        self._any = self._silent = False
        self._missing: set[int] = set()
        self._failed: dict[int, int] = {}

    async def submit(self, numbers: Collection[int]) -> None:
        """Submit a job for each of some workers, as one array.

        Raises:
            FarmError: SLURM does not take it.
        """
        ours = [
            *("--parsable", "--nodes=1", "--ntasks=1", f"--job-name={self._name}"),
            f"--array={','.join(map(str, numbers))}",
            f"--output={self._slurm.logs}/slurm-%A-%a.log",
        ]
        # What stands last counts.
        output = await _call("sbatch", *self._slurm.options, *ours, given=self._script)
        job = output.strip().splitlines()[-1].partition(";")[0] if output.strip() else ""
        if not job.isdecimal():
            raise FarmError(
                "sbatch does not name a job",
                where="its output",
                output=output[-_SHOWN:],
                next_step="see whether --slurm-options has one that changes what sbatch prints",
            )
        self._there |= {(job, number) for number in numbers}
        self._tell(f"SLURM has {len(numbers)} more jobs: {job}")

    async def keep(self) -> None:
        """Submit another job for each that has ended, until this is cancelled.

        Raises:
            FarmError: None of the workers can join.
        """
        asked = time.monotonic()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            found = map(_part, self._known())
            self._joined |= {job for job in found if job is not None and job in self._there}
            self._any = self._any or bool(self._joined)
            if time.monotonic() - asked < ASK_SECONDS:
                continue
            queue = await self._queue()
            asked = time.monotonic()
            if queue is None:
                continue
            self._missing |= {number for job, number in self._there - queue if self._ended(job, number)}
            self._there &= queue
            if self._missing:
                await self._replace()
            if not self._there and not self._missing:
                raise FarmError(
                    f"no job of SLURM brings a worker any more; each has ended {ATTEMPTS} times before it had joined",
                    where=self._slurm.logs,
                    next_step="see what they printed, and start the farm again",
                )

    async def _replace(self) -> None:
        try:
            await self.submit(sorted(self._missing))
        except FarmError as error:
            if not self._any:
                raise
            self._tell(f"jobs that ended are not replaced yet: {error}")
        else:
            self._missing.clear()

    def _ended(self, job: str, number: int) -> bool:
        """Tell of a job that has ended, and return whether another one is wanted.

        Raises:
            FarmError: Its worker has not joined, and none has before.
        """
        log = self._slurm.logs / f"slurm-{job}-{number}.log"
        if (job, number) in self._joined:
            self._failed.pop(number, None)
            self._tell(f"job {job}_{number} has ended; another one is submitted")
            return True
        printed = _end_of(log)
        if not self._any:
            raise FarmError(
                f"job {job}_{number} of SLURM has ended before its worker had joined",
                where=log,
                output=printed or "it printed nothing",
                next_step=f"see above, and scontrol show job {job}_{number}; nodes need to see this program, "
                f"{log.parent} and the certificates, and to reach the scheduler's address",
            )
        self._failed[number] = self._failed.get(number, 0) + 1
        last = self._failed[number] >= ATTEMPTS
        then = "that was the last attempt" if last else "another one is submitted"
        self._tell(f"job {job}_{number} has ended before its worker had joined; {then}: {log}\n{printed}".rstrip())
        return not last

    async def _queue(self) -> set[tuple[str, int]] | None:
        """Return the jobs that wait or run; None if SLURM does not answer."""
        try:
            lines = await _call("squeue", "--noheader", "--array", f"--name={self._name}", "--format=%F %K")
        except FarmError as error:
            if not self._silent:
                self._tell(f"SLURM does not answer, it is asked again: {error}")
            self._silent = True
            return None
        self._silent = False
        words = [line.split() for line in lines.splitlines()]
        return {(job, int(number)) for job, number in words if number.isdecimal()}

    async def cancel(self) -> None:
        """Cancel the jobs, and wait until none is there."""
        end = time.monotonic() + _END_SECONDS
        try:
            await _call("scancel", f"--name={self._name}")
            while await self._queue():
                if time.monotonic() >= end:
                    self._tell(f"jobs are still in the queue: squeue --name={self._name}")
                    return
                await asyncio.sleep(_LOOK_SECONDS)
        except FarmError as error:
            self._tell(f"jobs may still be in the queue; cancel them with scancel --name={self._name}: {error}")


def _part(worker: str) -> tuple[str, int] | None:
    """Return job and number of a worker's name."""
    match worker.split("-"):
        case ["slurm", job, number, *_] if number.isdecimal():
            return job, int(number)
    return None


def _end_of(log: Path) -> str:
    try:
        return log.read_text(encoding="utf-8", errors="replace")[-_SHOWN:].strip()
    except OSError:
        return ""


async def _call(program: str, *words: str, given: str = "") -> str:
    """Run a command of SLURM to its end, even if this is cancelled, and return what it prints.

    Raises:
        FarmError: It is not there, fails, or takes too long.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for this program, which ends the jobs in order
        )
    except FileNotFoundError as error:
        raise FarmError(
            f"there is no {program}",
            where="PATH",
            next_step="run this on a machine from which jobs are submitted to SLURM",
        ) from error
    talk = asyncio.ensure_future(process.communicate(given.encode()))
    try:
        output, errors = await asyncio.wait_for(asyncio.shield(talk), _CALL_SECONDS)
    except TimeoutError as error:
        process.kill()
        await talk
        raise FarmError(
            f"{program} does not end in {_CALL_SECONDS:.0f} s",
            where=shlex.join([program, *words]),
            next_step="see whether SLURM's controller runs: scontrol ping; --wait is no option for workers",
        ) from error
    except asyncio.CancelledError:
        await asyncio.wait({talk}, timeout=_CALL_SECONDS)
        raise
    if process.returncode:
        raise FarmError(
            f"{program} ended with status {process.returncode}",
            where=shlex.join([program, *words]),
            output=(errors + output).decode(errors="replace")[-_SHOWN:],
            next_step="see what it says; --slurm-options has what is given to sbatch",
        )
    return output.decode(errors="replace")
