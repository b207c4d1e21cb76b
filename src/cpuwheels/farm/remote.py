"""The executor of a farm: a client of dask.distributed, which has the jobs, their order, retries and workers."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from distributed import Client
from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker

from cpuwheels.core.errors import CpuwheelsError, FarmError, StoppedError
from cpuwheels.farm.done import with_files
from cpuwheels.farm.executor import ATTEMPTS
from cpuwheels.farm.machine import require_machine, resources_of
from cpuwheels.farm.worker import PassingError, do_job, forget_kernels

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from typing import Self

    from distributed import Future as DaskFuture
    from distributed.security import Security

    from cpuwheels.farm.done import Done
    from cpuwheels.farm.job import Job

CONNECT_SECONDS = 20


class RemoteExecutor:
    """Runs jobs on a farm; a context that gives up unfinished jobs when it ends.

    Args:
        address: Of the scheduler.
        security: Certificates.
        timeout: Seconds in which the scheduler has to answer.

    Raises:
        FarmError: The scheduler does not answer, or refuses the certificate.
    """

    def __init__(self, address: str, security: Security, timeout: float = CONNECT_SECONDS) -> None:
        self._address, self._over = address, False
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # what is wrong is told as one error
        try:
            self._client = Client(address, security=security, timeout=timeout, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise FarmError(
                f"the scheduler does not answer: {error}",
                where=address,
                next_step="see whether cpuwheels farm up runs there, and whether --farm-keys has its certificates",
            ) from error
        self._futures: dict[str, DaskFuture[Done]] = {}
        self._known: dict[str, Done] = {}
        self._left_out: set[str] = set()
        self._guard = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()
        # Only now: a worker that ends hands its results to others, and then nobody could tell who made them.
        for name in self._left_out if self._client.status == "running" else ():
            self.retire(name)
        self._client.close()

    def machines(self) -> dict[str, Mapping[str, float]]:
        """Return what each worker offers that gets jobs, by its name."""
        found = {str(one["name"]): one["resources"] for one in self._workers().values()}
        return {name: offered for name, offered in found.items() if name not in self._left_out}

    def know(self, done: Done, dist: Path) -> None:
        """Take the result of a job that was done before; its files are sent to the workers that need them."""
        with self._guard:
            self._known[done.key] = with_files(done, dist / done.folder) if done.folder else done
            self._futures.pop(done.key, None)

    def submit(self, job: Job, *, avoid: Iterable[str] = ()) -> Future[Done]:
        """Have a job done, and return its result to come.

        Raises:
            FarmError: No worker can do it, or the scheduler is gone.
        """
        left_out = {*avoid, *self._left_out}
        workers = {str(one["name"]): address for address, one in self._workers().items()}
        machines = {name: offered for name, offered in self.machines().items() if name not in left_out}
        able = require_machine(job.needs, str(job), machines)
        with self._guard:
            if job.key not in self._futures:
                self._futures[job.key] = self._client.submit(
                    do_job,
                    job.model_dump_json(),
                    *[self._input(key) for key in job.after],
                    key=job.key,
                    resources=resources_of(job.needs),
                    priority=job.priority,
                    retries=ATTEMPTS - 1,
                    workers=[workers[name] for name in able] if left_out else None,
                )
            return self._bridged(job, self._futures[job.key])

    def cancel(self) -> None:
        """Do nothing more: what waits is not begun, what runs is ended."""
        with self._guard:
            self._over = True
            open_ones = [future for future in self._futures.values() if not future.done()]
            if open_ones and self._client.status == "running":
                self._client.cancel(open_ones, force=True)

    def leave_out(self, job: Job, done: Done) -> None:
        """Send no more jobs to a worker whose wheel is wrong, and use no kernels that it may have sent to others.

        Args:
            job: The job that made the wheel.
            done: Its result.
        """
        self._left_out.add(done.by)
        if job.after:
            self.forget(self._futures[job.after[0]].result().kernels)

    def retire(self, name: str) -> None:
        """Send no more jobs to a worker, and end it."""
        found = [address for address, one in self._workers().items() if str(one["name"]) == name]
        if found:
            self._client.retire_workers(found, close_workers=True)

    def forget(self, kernels: str) -> None:
        """Have every worker forget kernels that another machine sent it."""
        self._client.run(forget_kernels, kernels)

    def _workers(self) -> dict[str, dict[str, Any]]:
        try:
            found = self._client.scheduler_info(n_workers=-1)["workers"]
        except (OSError, TimeoutError, KeyError) as error:
            raise self._gone() from error
        return dict(found)

    def _input(self, key: str) -> object:
        if key not in self._futures:
            self._futures[key] = self._client.scatter(self._known[key], hash=False)
        return self._futures[key]

    def _bridged(self, job: Job, remote: DaskFuture[Done]) -> Future[Done]:
        """Return a future of the standard library for one of dask's."""
        future: Future[Done] = Future()
        future.set_running_or_notify_cancel()

        def finish(ended: DaskFuture[Done]) -> None:
            try:
                done = ended.result()
                future.set_result(replace(done, by=self._maker(ended) or done.by))
            except PassingError as error:
                future.set_result(error.done)
            except CpuwheelsError as error:
                future.set_exception(error)
            except KilledWorker:
                future.set_exception(
                    FarmError(
                        f"{job} ended every worker that began it",
                        where=self._address,
                        next_step="see on those machines what ended it; often memory ran out: start workers with a "
                        "smaller --memory",
                    )
                )
            except (FutureCancelledError, OSError):
                future.set_exception(StoppedError() if self._over else self._gone())
            except BaseException as error:  # noqa: BLE001  (whatever dask raises is about the farm)
                future.set_exception(
                    FarmError(
                        f"{job} was not done: {type(error).__name__}: {error}",
                        where=self._address,
                        next_step="see what the scheduler and the workers have printed, and run the command again",
                    )
                )

        remote.add_done_callback(finish)
        return future

    def _maker(self, ended: DaskFuture[Done]) -> str:
        """Return the name of the worker that has a result, as the scheduler knows it; a worker could say anything."""
        names = {address: str(one["name"]) for address, one in self._workers().items()}
        (holders,) = self._client.who_has([ended]).values()
        return next((names[address] for address in holders if address in names), "")

    def _gone(self) -> FarmError:
        return FarmError(
            "the scheduler cannot be reached any more, or gave the job up",
            where=self._address,
            next_step="start the farm again and run the command again: what was done is not done again",
        )
