"""The executor of a farm: a client of dask.distributed, which has the jobs, their order, retries and workers."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from distributed import Client

from cpuwheels.core.digests import make_key
from cpuwheels.core.errors import CpuwheelsError, FarmError
from cpuwheels.farm.done import with_files
from cpuwheels.farm.executor import ATTEMPTS
from cpuwheels.farm.machine import fits, require_machine, resources_of
from cpuwheels.farm.remote_faults import reason_of, scheduler_gone
from cpuwheels.farm.slow import TOPIC, Patience, SlowJobs
from cpuwheels.farm.worker import PassingError, do_job, forget_carried

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path
    from typing import Self

    from distributed import Future as DaskFuture
    from distributed.security import Security

    from cpuwheels.farm.done import Done
    from cpuwheels.farm.job import Job, Needs

CONNECT_SECONDS = 20
_PATIENCE = Patience()


@dataclass
class _Given:
    """A job that the farm was given.

    Attributes:
        job: The job.
        able: Names of the workers that may do it.
        result: What comes of it.
        attempts: Futures of dask of which the first result counts; any other one that ends is of no interest.
    """

    job: Job
    able: frozenset[str]
    result: Future[Done] = field(default_factory=Future)
    attempts: list[DaskFuture[Done]] = field(default_factory=list)


class RemoteExecutor:
    """Runs jobs on a farm; a context that gives up unfinished jobs when it ends.

    Args:
        address: Of the scheduler.
        security: Certificates.
        timeout: Seconds in which the scheduler has to answer.
        patience: How long a job is waited for before an idle worker tries it as well.

    Raises:
        FarmError: The scheduler does not answer, or refuses the certificate.
    """

    def __init__(
        self, address: str, security: Security, timeout: float = CONNECT_SECONDS, patience: Patience = _PATIENCE
    ) -> None:
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
        self._given: dict[str, _Given] = {}
        self._futures: dict[str, DaskFuture[Done]] = {}
        self._known: dict[str, Done] = {}
        self._left_out: set[str] = set()
        self._tell_begun: Callable[[str, str], None] = lambda _key, _by: None
        self._guard = threading.RLock()
        self._slow, self._ended = SlowJobs(patience), threading.Event()
        self._client.subscribe_topic(TOPIC, self._heard)
        threading.Thread(target=self._look_for_slow_jobs, args=(patience.every,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()
        # Only now: a worker that ends hands its results to others, and then nobody could tell who made them.
        for name in self._left_out if self._client.status == "running" else ():
            self.retire(name)
        self._ended.set()
        self._client.close()

    def machines(self) -> dict[str, Mapping[str, float]]:
        """Return what each worker offers that gets jobs, by its name."""
        found = {str(one["name"]): one["resources"] for one in self._workers().values()}
        return {name: offered for name, offered in found.items() if name not in self._left_out}

    def can_do(self, needs: Needs) -> bool:
        """Return whether a worker could do a job with these needs.

        Raises:
            FarmError: The scheduler is gone.
        """
        return any(fits(needs, offered) for offered in self.machines().values())

    def tell_begun(self, tell: Callable[[str, str], None]) -> None:
        """Have somebody told of each job that begins, and begins again: its key, and the worker.

        Args:
            tell: Called in a thread of dask's.
        """
        self._tell_begun = tell

    def know(self, done: Done, dist: Path) -> None:
        """Take the result of a job that was done before; its files are sent to the workers that need them."""
        with self._guard:
            self._known[done.key] = with_files(done, dist / done.folder) if done.folder else done
            self._futures.pop(done.key, None)
            self._given.pop(done.key, None)

    def submit(self, job: Job, *, avoid: Iterable[str] = ()) -> Future[Done]:
        """Have a job done, and return its result to come.

        Raises:
            FarmError: No worker can do it, or the scheduler is gone.
        """
        left_out = {*avoid, *self._left_out}
        machines = {name: offered for name, offered in self.machines().items() if name not in left_out}
        able = require_machine(job.needs, str(job), machines)
        with self._guard:
            given = self._given.get(job.key)
            if given is None:
                given = self._given[job.key] = _Given(job, frozenset(able))
                given.result.set_running_or_notify_cancel()
                self._attempt(given, job.key, able if left_out else None)
            return given.result

    def _attempt(self, given: _Given, key: str, names: Iterable[str] | None) -> DaskFuture[Done]:
        """Have dask do a job, by a key that it does not have yet.

        Args:
            given: The job.
            key: The key.
            names: Workers that may do it; None for all.
        """
        job = given.job.model_copy(update={"key": key})
        workers = {str(one["name"]): address for address, one in self._workers().items()} if names is not None else {}
        future = self._client.submit(
            do_job,
            job.model_dump_json(),
            *[self._input(key) for key in job.after],
            key=key,
            resources=resources_of(job.needs),
            priority=job.priority,
            retries=ATTEMPTS - 1,
            workers=None if names is None else [workers[name] for name in names if name in workers],
        )
        self._futures.setdefault(given.job.key, future)
        given.attempts.append(future)
        future.add_done_callback(lambda ended: self._finish(given, ended))
        return future

    def cancel(self) -> None:
        """Do nothing more: what waits is not begun, what runs is ended."""
        with self._guard:
            self._over = True
            every = [*self._futures.values(), *(one for given in self._given.values() for one in given.attempts)]
            open_ones = [future for future in every if not future.done()]
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
            self.forget(self._futures[job.after[0]].result())

    def retire(self, name: str) -> None:
        """Send no more jobs to a worker, and end it."""
        found = [address for address, one in self._workers().items() if str(one["name"]) == name]
        if found:
            self._client.retire_workers(found, close_workers=True)

    def forget(self, carried: Done) -> None:
        """Have every worker forget kernels, and their audit, that another machine sent it."""
        for key in filter(None, (carried.kernels, carried.audit)):
            self._client.run(forget_carried, key)

    def _workers(self) -> dict[str, dict[str, Any]]:
        if self._client.status != "running":
            raise scheduler_gone(self._address)
        try:
            found = self._client.scheduler_info(n_workers=-1)["workers"]
        except (OSError, TimeoutError, KeyError) as error:
            raise scheduler_gone(self._address) from error
        return dict(found)

    def _input(self, key: str) -> object:
        if key not in self._futures:
            self._futures[key] = self._client.scatter(self._known[key], hash=False)
        return self._futures[key]

    def _finish(self, given: _Given, ended: DaskFuture[Done]) -> None:
        """Take what came of an attempt, if the job has no result yet."""
        with self._guard:
            if given.result.done() or not any(ended is one for one in given.attempts):
                return
            try:
                done = ended.result()
                done = replace(done, key=given.job.key, by=self._maker(ended) or done.by)
            except BaseException as error:  # noqa: BLE001  (whatever dask raises is about the farm)
                if ended is not given.attempts[0]:
                    given.attempts.remove(ended)  # the first one may still succeed
                    return
                self._drop(given, ended)
                if isinstance(error, PassingError):
                    given.result.set_result(error.done)
                else:
                    given.result.set_exception(reason_of(given.job, error, self._address, over=self._over))
                return
            self._drop(given, ended)
            given.result.set_result(done)

    def _drop(self, given: _Given, ended: DaskFuture[Done]) -> None:
        """Give up the other attempts of a job, and have what follows it use the one that has ended."""
        others = [one for one in given.attempts if one is not ended]
        given.attempts[:] = [ended]
        if self._futures.get(given.job.key) is not ended:
            self._futures[given.job.key] = ended
            affected = {given.job.key}
            for other in [one for one in self._given.values() if not one.result.done()]:
                if affected & set(other.job.after):
                    affected.add(other.job.key)
                    others += other.attempts
                    other.attempts.clear()
                    del self._futures[other.job.key]
                    names = other.able - self._left_out if self._left_out else None
                    self._attempt(other, make_key(after=ended.key, job=other.job.key), names)
        if others and self._client.status == "running":
            self._client.cancel(others, force=True)

    def _heard(self, event: tuple[float, Mapping[str, str]]) -> None:
        _, told = event
        self._slow.began(told["job"], told["worker"], time.monotonic())
        # Without the guard: this is dask's own thread, which whoever has the guard may be waiting for.
        for one in list(self._given.values()):
            if any(told["job"] == future.key for future in list(one.attempts)):
                self._tell_begun(one.job.key, told["worker"])

    def _look_for_slow_jobs(self, every: float) -> None:
        while not self._ended.wait(every):
            with suppress(CpuwheelsError, OSError, TimeoutError):  # without a scheduler every future ends by itself
                self._try_slow_jobs()

    def _try_slow_jobs(self) -> None:
        if not self._slow.overdue(self._waited_for(), time.monotonic()):
            return  # the scheduler is asked only if there is a reason
        names = {address: str(one["name"]) for address, one in self._workers().items()}
        busy = {names.get(address) for address, keys in self._client.processing().items() if keys}
        with self._guard:
            waited_for = self._waited_for()
            able = {key: self._given[key].able for key in waited_for}
            idle = set(names.values()) - busy - self._left_out
            for job, name in self._slow.second_attempts(waited_for, idle, able, time.monotonic()):
                self._attempt(self._given[job.key], make_key(second_attempt=job.key), [name])

    def _waited_for(self) -> dict[str, Job]:
        with self._guard:
            return {key: given.job for key, given in self._given.items() if not given.result.done()}

    def _maker(self, ended: DaskFuture[Done]) -> str:
        """Return the name of the worker that has a result, as the scheduler knows it; a worker could say anything."""
        names = {address: str(one["name"]) for address, one in self._workers().items()}
        (holders,) = self._client.who_has([ended]).values()
        return next((names[address] for address in holders if address in names), "")
