"""The executor of one machine: jobs in threads of this process, each a command of its own."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING

from cpuwheels.core.errors import CpuwheelsError, FarmError, StoppedError
from cpuwheels.core.process import end_command_of
from cpuwheels.farm.done import Done
from cpuwheels.farm.executor import ATTEMPTS
from cpuwheels.farm.perform import perform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from typing import Self

    from cpuwheels.farm.job import Job, Needs
    from cpuwheels.farm.machine import Machine
    from cpuwheels.farm.site import Site

PAUSE_SECONDS = 10.0
"""Before the second attempt; as many times as long before each further one."""

_LOOKS_SECONDS = 0.1


class LocalExecutor:
    """Runs jobs on this machine; a context that ends what still runs.

    A build takes every CPU and the whole memory cap, so one after the other is the rule.

    Args:
        site: Where.
        machine: What this machine offers.
        at_once: How many jobs run at once.
        pause: Waits between attempts.
    """

    def __init__(
        self, site: Site, machine: Machine, at_once: int = 1, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._site, self._machine, self._pause = site, machine, pause
        self._changed = threading.Condition()
        self._waiting: list[Job] = []
        self._futures: dict[str, Future[Done]] = {}
        self._working: set[int] = set()
        self._tell_begun: Callable[[str, str], None] = lambda _key, _by: None
        self._over = False
        self._threads = [
            threading.Thread(target=self._work, name=f"job-{number}", daemon=True) for number in range(at_once)
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    def can_do(self, needs: Needs) -> bool:
        """Return whether this machine could do a job with these needs."""
        return not self._machine.lacks(needs)

    def require(self, job: Job) -> None:
        """Check that this machine could do a job.

        Raises:
            FarmError: It cannot.
        """
        if lacking := self._machine.lacks(job.needs):
            raise FarmError(
                f"{job} cannot be done: {lacking}",
                where="this machine",
                next_step="leave it out, or send the jobs to a farm with --farm",
            )

    def tell_begun(self, tell: Callable[[str, str], None]) -> None:
        """Have somebody told of each job that begins: its key, and who does it.

        Args:
            tell: Called in the job's thread.
        """
        self._tell_begun = tell

    def expect(self, jobs: Iterable[Job]) -> None:
        """Do nothing: what jobs use is in the output folder."""

    def know(self, done: Done, dist: Path) -> None:
        """Take the result of a job that was done before; its files are where every job looks for them."""
        del dist
        with self._changed:
            self._futures[done.key] = Future()
            self._futures[done.key].set_result(done)

    def submit(self, job: Job, *, avoid: Iterable[str] = ()) -> Future[Done]:
        """Have a job done, and return its result to come.

        Raises:
            FarmError: This machine cannot do it.
        """
        del avoid  # there is no other machine
        self.require(job)
        with self._changed:
            if job.key not in self._futures:
                self._futures[job.key] = Future()
                self._waiting.append(job)
                self._changed.notify_all()
            return self._futures[job.key]

    def cancel(self) -> None:
        """Do nothing more: what waits is not begun, what runs is ended."""
        with self._changed:
            self._over = True
            for job in self._waiting:
                self._futures[job.key].cancel()
            self._waiting.clear()
            self._changed.notify_all()
        while any(thread.is_alive() for thread in self._threads):
            for thread in list(self._working):
                end_command_of(thread)
            time.sleep(_LOOKS_SECONDS)

    def _work(self) -> None:
        while (job := self._next()) is not None:
            future, me = self._futures[job.key], threading.get_ident()
            self._working.add(me)
            try:
                self._tell_begun(job.key, self._site.name or "this machine")
                future.set_result(self._attempted(job))
            except BaseException as error:  # noqa: BLE001  (whoever waits for it gets it)
                future.set_exception(StoppedError() if self._over else error)
            finally:
                self._working.discard(me)
            with self._changed:
                self._changed.notify_all()

    def _next(self) -> Job | None:
        """Return the job of the highest priority that can begin, waiting for one; None when all is over."""
        with self._changed:
            while not self._over:
                ready = [job for job in self._waiting if all(self._futures[key].done() for key in job.after)]
                if ready:
                    job = max(ready, key=lambda job: job.priority)
                    self._waiting.remove(job)
                    self._futures[job.key].set_running_or_notify_cancel()
                    return job
                self._changed.wait()
        return None

    def _attempted(self, job: Job) -> Done:
        given = [self._given(key) for key in job.after]
        for attempt in range(1, ATTEMPTS + 1):
            done = perform(job, self._site, given)
            if self._over:
                raise StoppedError
            if not done.passing or attempt == ATTEMPTS:
                return done
            self._pause(PAUSE_SECONDS * attempt)
        raise CpuwheelsError(str(job))  # at least one attempt returns

    def _given(self, key: str) -> Done:
        try:
            return self._futures[key].result()
        except CpuwheelsError as error:
            return Done(key, code=error.exit_code, output=error.what)
