"""The executor of a farm: a client of dask.distributed, which has the jobs, their order, retries and workers."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from distributed.client import FutureCancelledError

from cpuwheels.core.digests import make_key
from cpuwheels.core.errors import CpuwheelsError, FarmError, StoppedError
from cpuwheels.farm.blame import Blame
from cpuwheels.farm.connection import CONNECT_SECONDS, Connection
from cpuwheels.farm.done import NOT_RUN, Done
from cpuwheels.farm.executor import ATTEMPTS
from cpuwheels.farm.given import LOST_SECONDS, Given, nobody_left
from cpuwheels.farm.machine import fits, require_machine, resources_of
from cpuwheels.farm.remote_faults import reason_of
from cpuwheels.farm.results import Results
from cpuwheels.farm.slow import TOPIC, Patience, SlowJobs
from cpuwheels.farm.worker import PassingError, do_job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from concurrent.futures import Future
    from pathlib import Path
    from typing import Self

    from distributed import Future as DaskFuture
    from distributed.security import Security

    from cpuwheels.farm.job import Job, Needs

_PATIENCE = Patience()
_FETCHES = 4
"""Results that are fetched at once."""

_BACK_SECONDS = 1.0
"""How long it takes until it is seen again whether a worker that has gone is back."""

_LOOKS = 6
"""Every so many looks for slow jobs it is seen whether each job has a worker that can do it."""


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
        self._over = False
        self._farm = Connection(address, security, timeout)
        self._results = Results()
        self._blame = Blame()
        self._seen: dict[str, Mapping[str, float]] = {}
        self._fetchers = ThreadPoolExecutor(_FETCHES, thread_name_prefix="fetch")
        self._tell_begun: Callable[[str, str], None] = lambda _key, _by: None
        self._guard = threading.RLock()
        self._slow, self._ended = SlowJobs(patience), threading.Event()
        self._farm.client.subscribe_topic(TOPIC, self._heard)
        threading.Thread(target=self._watch, args=(patience.every,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()
        self._ended.set()
        self._fetchers.shutdown(wait=False, cancel_futures=True)
        with self._guard:
            for given in self._results.unfinished():
                given.result.set_exception(StoppedError())
        try:
            # Only now: a worker that ends hands its results to others, and then nobody could tell who made them.
            for name in self._blame.left_out if self._farm.stands else ():
                self._farm.retire(name)
        finally:
            self._farm.client.close()

    def machines(self) -> dict[str, Mapping[str, float]]:
        """Return what each worker offers that gets jobs, by its name."""
        offers = self._farm.offers()
        self._seen.update(offers)
        return {name: offered for name, offered in offers.items() if name not in self._blame.left_out}

    def can_do(self, needs: Needs) -> bool:
        """Return whether a worker could do a job with these needs.

        Raises:
            FarmError: The scheduler is gone.
        """
        return any(fits(needs, offered) for offered in self.machines().values())

    def require(self, job: Job) -> None:
        """Check that a worker could do a job.

        Raises:
            FarmError: None can, or the scheduler is gone.
        """
        require_machine(job.needs, str(job), self.machines())

    def expect(self, jobs: Iterable[Job]) -> None:
        """Keep the results that these jobs will use, until they are done; any other one is given up once it is here."""
        with self._guard:
            self._results.expected |= {job.key: job for job in jobs}

    def tell_begun(self, tell: Callable[[str, str], None]) -> None:
        """Have somebody told of each job that begins, and begins again: its key, and the worker.

        Args:
            tell: Called in a thread of dask's.
        """
        self._tell_begun = tell

    def know(self, done: Done, dist: Path) -> None:
        """Take the result of a job that was done before; its files are sent to the workers that need them."""
        with self._guard:
            self._results.know(done, dist)

    def submit(self, job: Job, *, avoid: Iterable[str] = ()) -> Future[Done]:
        """Have a job done, and return its result to come.

        Raises:
            FarmError: No worker can do it, or the scheduler is gone.
        """
        avoid = frozenset(avoid)
        able = self._able(job, avoid)
        with self._guard:
            given = self._results.given.get(job.key)
            if given is None:
                given = self._results.given[job.key] = Given(job, frozenset(able), avoid)
                given.result.set_running_or_notify_cancel()
                self._results.expected[job.key] = job
                try:
                    self._attempt(given, job.key, able if avoid or self._blame.left_out else None)
                except BaseException:
                    del self._results.given[job.key], self._results.expected[job.key]
                    raise
            return given.result

    def _able(self, job: Job, avoid: frozenset[str]) -> list[str]:
        """Return the names of the workers that can do a job, after waiting for those that could and have gone.

        A worker that is killed, or cut off, is back a moment later.

        Raises:
            FarmError: There is none, or the scheduler is gone.
        """
        until = time.monotonic() + LOST_SECONDS
        while True:
            there = {name: offered for name, offered in self.machines().items() if name not in avoid}
            could = {name for name, offered in dict(self._seen).items() if fits(job.needs, offered)}
            could -= avoid | self._blame.left_out
            waited = time.monotonic() >= until or self._ended.is_set()
            if not could or could & there.keys() or waited:
                return require_machine(job.needs, str(job), there)
            self._ended.wait(_BACK_SECONDS)

    def _attempt(self, given: Given, key: str, names: Iterable[str] | None, *, also: bool = False) -> DaskFuture[Done]:
        """Have dask do a job, by a key that it does not have yet.

        Args:
            given: The job.
            key: The key.
            names: Workers that may do it; None for all.
            also: Whether the attempt before it goes on.

        Raises:
            FarmError: None of these is there, or the scheduler is gone.
        """
        wanted = None if names is None else frozenset(names)
        there = {} if wanted is None else self._farm.names()
        addresses = frozenset(address for address, name in there.items() if wanted and name in wanted)
        if self._over:
            raise StoppedError
        if wanted is not None and not addresses:  # none would mean any to dask
            raise nobody_left(given.job)
        if not also:
            given.names, given.addresses = wanted, addresses
        job = given.job.model_copy(update={"key": key})
        future = self._farm.client.submit(
            do_job,
            job.model_dump_json(),
            *[self._results.at_farm(key, self._farm.client) for key in job.after],
            key=key,
            resources=resources_of(job.needs),
            priority=job.priority,
            retries=ATTEMPTS - 1,
            workers=sorted(addresses) or None,
        )
        self._results.futures.setdefault(given.job.key, future)
        given.attempts.append(future)
        # Apart from dask's one thread for this: a result may have to be made again before it can be fetched.
        future.add_done_callback(partial(self._fetch, given))
        return future

    def _allowed(self, given: Given) -> frozenset[str] | None:
        """Return the names of the workers that may do a job by now; None for all that can."""
        if not (given.avoid or self._blame.left_out):
            return None
        there = {name for name, offered in self.machines().items() if fits(given.job.needs, offered)}
        return frozenset(there - given.avoid)

    def _again(self, given: Given, names: Iterable[str] | None) -> None:
        """Give a job to workers again, in place of the attempts that there are."""
        given.tries += 1
        key = make_key(attempt=given.tries, job=given.job.key)
        self._drop(given, self._attempt(given, key, names))

    def cancel(self) -> None:
        """Do nothing more: what waits is not begun, what runs is ended."""
        with self._guard:
            self._over = True
            given = [one for given in self._results.given.values() for one in given.attempts]
            self._farm.cancel([future for future in (*self._results.futures.values(), *given) if not future.done()])

    def leave_out(self, job: Job, done: Done) -> str:
        """Send no more jobs to the worker whose wheel is wrong, and use no kernels that it may have sent to others.

        Args:
            job: The job that made the wheel.
            done: Its result.

        Returns:
            The name of the worker that is left out; see `Blame`.
        """
        with self._guard:
            used = [self._results.kernels[key] for key in job.after if key in self._results.kernels]
            blamed = self._blame.on(done.by, used[0].by if used else done.by)
            wrong = [one for one in self._results.kernels.values() if one.by == blamed]
            for one in wrong:
                self._distrust(one)
        for one in {each.key: each for each in (*wrong, *used)}.values():
            self._farm.forget(one)
        return blamed

    def _distrust(self, kernels: Done) -> None:
        """Have the wheels that would be packed from kernels of a worker that is left out compile their own."""
        del self._results.kernels[kernels.key]
        instead = replace(kernels, kernels="", audit="", code=FarmError.exit_code, output="whoever made it is left out")
        self._results.known[kernels.key] = lambda: instead
        self._results.futures.pop(kernels.key, None)
        for given in [one for one in self._results.unfinished() if kernels.key in one.job.after]:
            try:
                self._again(given, self._allowed(given))
            except FarmError as error:
                given.result.set_exception(error)

    def _fetch(self, given: Given, ended: DaskFuture[Done]) -> None:
        with suppress(RuntimeError):  # all is over
            self._fetchers.submit(self._finish, given, ended)

    def _finish(self, given: Given, ended: DaskFuture[Done]) -> None:
        """Take what came of an attempt, if the job has no result yet."""
        if given.result.done():
            return
        came: Done | BaseException
        try:
            came = ended.result()
            came = replace(came, key=given.job.key, by=self._farm.maker(ended, came.by))
        except BaseException as error:  # noqa: BLE001  (whatever dask raises is about the farm)
            came = error
        with self._guard:
            if given.result.done() or not any(ended is one for one in given.attempts):
                return
            try:
                self._settle(given, ended, came)
            except BaseException as error:  # noqa: BLE001  (whoever waits for the job gets it)
                given.result.set_exception(self._reason(given, ended, error))
            if given.result.done():
                self._results.give_up(given)

    def _settle(self, given: Given, ended: DaskFuture[Done], came: Done | BaseException) -> None:
        if isinstance(came, BaseException):
            if ended is not given.attempts[0]:
                given.attempts.remove(ended)  # the first one may still succeed
            elif isinstance(came, FutureCancelledError) and self._lost_input(given):
                self._again(given, given.names)
            else:
                self._drop(given, ended)
                self._fail(given, ended, came)
        elif came.by in self._blame.left_out:
            self._again(given, self._allowed(given))
        else:
            self._drop(given, ended)
            if given.job.kind == "kernels":
                self._results.kernels[given.job.key] = replace(came, content=b"", files={})
            given.result.set_result(came)

    def _fail(self, given: Given, ended: DaskFuture[Done], error: BaseException) -> None:
        failed = next((one for one in map(self._results.given.get, given.job.after) if one and _error_of(one)), None)
        if failed is not None:
            said = str(_error_of(failed))
            given.result.set_result(Done(given.job.key, code=NOT_RUN, output=f"{failed.job}: {said}"))
        elif not isinstance(error, PassingError):
            given.result.set_exception(self._reason(given, ended, error))
        elif error.done.key == ended.key:
            given.result.set_result(replace(error.done, key=given.job.key))
        else:
            given.result.set_result(replace(error.done, key=given.job.key, code=NOT_RUN, seconds=0.0))

    def _reason(self, given: Given, ended: DaskFuture[Done], error: BaseException) -> BaseException:
        return reason_of(given.job, error, self._farm.address, str(ended.key), over=self._over)

    def _lost_input(self, given: Given) -> bool:
        """Return whether a worker has gone with a result that this program had sent it, and forget where it was."""
        again = not self._over and given.tries < ATTEMPTS and self._farm.stands
        return again and self._results.were_sent(given.job.after)

    def _drop(self, given: Given, ended: DaskFuture[Done]) -> None:
        """Give up the other attempts of a job, and have what follows it use the one that has ended."""
        others = [one for one in given.attempts if one is not ended]
        given.attempts[:] = [ended]
        if self._results.futures.get(given.job.key) is not ended:
            self._results.futures[given.job.key] = ended
            affected = {given.job.key}
            for other in self._results.unfinished():
                if affected & set(other.job.after):
                    affected.add(other.job.key)
                    others += other.attempts
                    other.attempts.clear()
                    self._results.futures.pop(other.job.key, None)
                    try:
                        self._attempt(other, make_key(after=ended.key, job=other.job.key), self._allowed(other))
                    except (CpuwheelsError, OSError) as error:
                        other.result.set_exception(self._reason(other, ended, error))
        self._farm.cancel(others)

    def _heard(self, event: tuple[float, Mapping[str, str]]) -> None:
        _, told = event
        self._slow.began(told["job"], told["worker"], time.monotonic())
        # Without the guard: this is dask's own thread, which whoever has the guard may be waiting for.
        for one in list(self._results.given.values()):
            if any(told["job"] == future.key for future in list(one.attempts)):
                self._tell_begun(one.job.key, told["worker"])

    def _watch(self, every: float) -> None:
        looks = 0
        while not self._ended.wait(every):
            looks += 1
            with suppress(CpuwheelsError, OSError, TimeoutError):  # without a scheduler every future ends by itself
                self._try_slow_jobs()
                if looks % _LOOKS == 0:
                    self._see_to_the_stranded()

    def _try_slow_jobs(self) -> None:
        if not self._slow.overdue(self._waited_for(), time.monotonic()):
            return  # the scheduler is asked only if there is a reason
        names, busy = self._farm.names(), self._farm.busy()
        with self._guard:
            waited_for = self._waited_for()
            able = {key: self._results.given[key].able for key in waited_for}
            idle = {name for address, name in names.items() if address not in busy} - self._blame.left_out
            for job, name in self._slow.second_attempts(waited_for, idle, able, time.monotonic()):
                self._attempt(self._results.given[job.key], make_key(second_attempt=job.key), [name], also=True)

    def _see_to_the_stranded(self) -> None:
        """Give jobs again whose workers have other addresses by now, and give up those that nobody can do any more."""
        names, offers = self._farm.names(), self.machines()
        with self._guard:
            for given in self._results.unfinished():
                able = [name for name, offered in offers.items() if fits(given.job.needs, offered)]
                able = [name for name in able if given.names is None or name in given.names]
                if given.is_stranded(names):
                    with suppress(CpuwheelsError, OSError):  # the next look sees it again
                        self._again(given, given.names)
                elif given.lost_for(able, time.monotonic()) >= LOST_SECONDS:
                    given.result.set_exception(nobody_left(given.job))
                    self._farm.cancel(given.attempts)

    def _waited_for(self) -> dict[str, Job]:
        with self._guard:
            return {given.job.key: given.job for given in self._results.unfinished()}


def _error_of(given: Given) -> BaseException | None:
    """Return why a job was not done; None if it was, or is not yet over."""
    return given.result.exception() if given.result.done() else None
