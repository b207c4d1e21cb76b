"""A farm's processes: a scheduler with workers here, on hosts and in SLURM, or a worker for a scheduler elsewhere.

Scheduler, workers and nannies are those of dask.distributed. A nanny starts its worker again when that is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import signal
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import dask
from distributed.core import Status

from cpuwheels.core.errors import FarmError, StoppedError
from cpuwheels.farm.engine import NO_PAGES, SETTINGS, FarmNanny, FarmScheduler
from cpuwheels.farm.security import SIGNING, read_certificates
from cpuwheels.farm.slurm import jobs_of
from cpuwheels.farm.ssh import workers_on
from cpuwheels.farm.worker import PAUSE_SECONDS, JobPlugin

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from pathlib import Path

    from cpuwheels.farm.machine import Machine
    from cpuwheels.farm.site import Site
    from cpuwheels.farm.slurm_job import Slurm
    from cpuwheels.farm.ssh import Host

START_SECONDS = 120.0
"""In which a worker has to be known to its scheduler."""

REJOIN_SECONDS = 600.0
"""For which a worker that has lost its scheduler tries to find one at the same address."""

_PAUSE_SECONDS = 0.5
_LOST = "worker-"
"""What the reasons begin with that a worker of dask gives its nanny if it has lost the scheduler; others are orders."""


@dataclass(frozen=True)
class Place:
    """A worker that is to run on this machine.

    Attributes:
        site: Where its jobs are done.
        machine: What it offers.
        pause: Seconds before another attempt of what failed for a passing reason.
    """

    site: Site
    machine: Machine
    pause: float = PAUSE_SECONDS


async def run_scheduler(
    keys: Path,
    host: str,
    port: int,
    places: Sequence[Place],
    ready: Callable[[str], None],
    hosts: Sequence[Host] = (),
    tell: Callable[[str], None] = print,
    slurm: Slurm | None = None,
    more: Sequence[str] = (),
) -> None:
    """Run a scheduler, and workers on this machine and on others, until a signal ends them.

    Args:
        keys: Folder of the certificates.
        host: Address that it listens at.
        port: Of that address; 0 for any.
        places: Workers.
        ready: Called with the scheduler's address when all of it runs.
        hosts: Other machines on which a worker is started.
        tell: Told what these print.
        slurm: Workers that are jobs of SLURM.
        more: Options of the workers on the hosts.

    Raises:
        FarmError: It cannot listen there, or a worker does not start.
        StoppedError: A signal came.
    """
    security = read_certificates(keys)
    logging.getLogger("distributed").setLevel(logging.WARNING)
    with dask.config.set(SETTINGS):
        try:
            scheduler = await FarmScheduler(
                host=host, port=port, security=security, protocol="tls", dashboard=False, dashboard_address=NO_PAGES
            )
        except (OSError, RuntimeError) as error:
            raise FarmError(
                f"the scheduler cannot listen: {error.__cause__ or error}",
                where=f"{host}:{port}",
                next_step="give another address with --host, or another --port",
            ) from error
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(scheduler.close)
            nannies = await asyncio.gather(*(_started(stack, place, scheduler.address, keys, host) for place in places))
            stop = _stop_at_signals()
            if hosts:
                others = workers_on(hosts, scheduler.address, keys, tell, more)
                await _unless_stopped(stop, stack.enter_async_context(others))
            check_jobs = _nothing
            if slurm is not None:
                jobs = jobs_of(slurm, scheduler.address, keys, partial(_names, scheduler), tell)
                check_jobs = await _unless_stopped(stop, stack.enter_async_context(jobs))
            ready(scheduler.address)

            def check() -> None:
                _check(nannies, scheduler.status)
                check_jobs()

            await _until_stopped(stop, check)


async def run_worker(
    address: str,
    keys: Path,
    place: Place,
    host: str | None,
    ready: Callable[[str], None],
    patience: float = REJOIN_SECONDS,
) -> None:
    """Run a worker for a scheduler until a signal ends it.

    Args:
        address: Of the scheduler.
        keys: Folder of the certificates.
        place: The worker.
        host: Address that it listens at; the one that leads to the scheduler when None.
        ready: Called with its address when it runs, and each time that it has found a scheduler again.
        patience: Seconds for which it tries to find one again.

    Raises:
        FarmError: The scheduler does not answer, or is gone for longer.
        StoppedError: A signal came.
    """
    logging.getLogger("distributed").setLevel(logging.WARNING)
    stop, lost = _stop_at_signals(), time.monotonic() - patience
    with dask.config.set(SETTINGS):
        while True:
            async with contextlib.AsyncExitStack() as stack:
                try:
                    nanny = await _unless_stopped(stop, _started(stack, place, address, keys, host))
                except FarmError:
                    if time.monotonic() - lost >= patience:
                        raise
                    await _until_stopped(stop, _nothing, _PAUSE_SECONDS)
                    continue
                ready(str(nanny.worker_address))
                try:
                    await _until_stopped(stop, partial(_check, [nanny], Status.running))
                except FarmError:
                    if not nanny.reason.startswith(_LOST):
                        raise
                    lost = time.monotonic()


async def _started(stack: contextlib.AsyncExitStack, place: Place, address: str, keys: Path, host: str | None) -> Any:  # noqa: ANN401
    """Start a worker and return its nanny; it is ended with the stack."""
    nanny: Any = FarmNanny(
        address,
        name=place.machine.name,
        nthreads=1,  # a job takes all CPUs of its worker
        memory_limit=0,  # a job's command has a cap of its own, and the worker itself holds results alone
        resources=place.machine.resources(),
        local_directory=str(place.site.work),
        security=read_certificates(keys),
        protocol="tls",
        host=host,
        dashboard=False,
        dashboard_address=NO_PAGES,
        silence_logs=logging.WARNING,
        plugins=(JobPlugin(place.site, place.pause),),
        death_timeout=60,
    )
    try:
        await asyncio.wait_for(nanny.start(), START_SECONDS)
    except (OSError, TimeoutError, RuntimeError) as error:
        await nanny.close()
        raise FarmError(
            f"worker {place.machine.name} does not start: {error}",
            where=address,
            next_step="see whether the scheduler runs, and whether --farm-keys has its certificates",
        ) from error
    stack.push_async_callback(nanny.close)
    return nanny


def _check(nannies: Sequence[Any], scheduler: Status) -> None:
    """Raise if nothing is left that could do a job."""
    if scheduler not in {Status.running, Status.init}:
        raise FarmError("the scheduler has ended", where="this machine", next_step="start it again")
    if nannies and all(nanny.status in {Status.closed, Status.failed, Status.closing} for nanny in nannies):
        raise FarmError(
            "no worker of this machine runs any more",
            where=", ".join(str(nanny.name) for nanny in nannies),
            next_step="the scheduler is gone, or the disk is full: see above, and start them again",
        )


def _names(scheduler: FarmScheduler) -> list[str]:
    """Return the names of the workers that have joined."""
    return [str(worker.name) for worker in scheduler.workers.values()]


def _nothing() -> None:
    """Check nothing."""


def _stop_at_signals() -> asyncio.Event:
    """Return what is set by a signal."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    return stop


async def _unless_stopped(stop: asyncio.Event, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401
    """Return the result of some work.

    Raises:
        StoppedError: A signal came before.
    """
    working, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if working.done():
        return working.result()
    working.cancel()
    with contextlib.suppress(asyncio.CancelledError, FarmError):
        await working
    raise StoppedError


async def _until_stopped(stop: asyncio.Event, check: Callable[[], None], seconds: float = math.inf) -> None:
    """Wait for a signal, or for so many seconds.

    Raises:
        StoppedError: It came.
        FarmError: There is nothing left to wait for.
    """
    end = time.monotonic() + seconds
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _PAUSE_SECONDS)
        if not stop.is_set():
            check()
            if time.monotonic() >= end:
                return
    raise StoppedError


def signing_key(keys: Path) -> Path:
    """Return the file of the key that signs kernels which workers hand on."""
    return keys / SIGNING
