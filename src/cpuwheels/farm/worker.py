"""What runs in a worker of dask.distributed: one job at a time, ended as soon as nobody wants its result."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from distributed import WorkerPlugin

from cpuwheels.core.errors import FarmError
from cpuwheels.core.process import end_command_of
from cpuwheels.core.sealed_entry import sealed_origin
from cpuwheels.core.store import Store
from cpuwheels.core.trust import Trust
from cpuwheels.farm.carried import KINDS
from cpuwheels.farm.done import MACHINE, Done
from cpuwheels.farm.executor import ATTEMPTS
from cpuwheels.farm.job import Job
from cpuwheels.farm.perform import perform
from cpuwheels.farm.slow import TOPIC

if TYPE_CHECKING:
    from distributed import Worker

    from cpuwheels.farm.site import Site

_LOOKS_SECONDS = 0.1
_GUARD = threading.Lock()
"""Of what plugins know of running jobs; a plugin is sent to the process of its worker, and a lock cannot be."""

PAUSE_SECONDS = 10.0


class PassingError(Exception):
    """A job that may succeed at another attempt, maybe on another machine; the scheduler attempts it again.

    Args:
        done: What came of it.
    """

    def __init__(self, done: Done) -> None:
        super().__init__(done)
        self.done = done


class _Run:
    """A job that runs.

    Args:
        thread: That does it.
    """

    def __init__(self, thread: int) -> None:
        self.thread, self.over, self.unwanted = thread, False, threading.Event()


class JobPlugin(WorkerPlugin):
    """The place of a worker's jobs, and what is known of the one that runs.

    Args:
        site: The place.
        pause: Seconds before another attempt of what failed for a passing reason.
    """

    name = "cpuwheels"

    def __init__(self, site: Site, pause: float = PAUSE_SECONDS) -> None:
        self.site, self._pause = site, pause
        self.worker: Worker | None = None
        self._running: dict[str, _Run] = {}

    def setup(self, worker: Worker) -> None:
        """Note the worker."""
        self.worker = worker

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:  # noqa: ANN401  (as dask has it)
        """Tell that a job begins, and end the command of one that is not wanted any more.

        Its client is gone, or has cancelled it.
        """
        if finish == "executing" and self.worker is not None:
            self.worker.log_event(TOPIC, {"job": str(key), "worker": self.site.name})
        if start in {"executing", "long-running", "cancelled"} and finish in {"released", "cancelled", "forgotten"}:
            run = self._running.get(str(key))
            if run is not None:
                threading.Thread(target=self._end, args=(str(key), run), daemon=True).start()

    def teardown(self, worker: Worker) -> None:
        """End what runs when the worker ends."""
        del worker
        for key, run in list(self._running.items()):
            self._end(key, run)

    def run(self, job: Job, given: tuple[Done, ...]) -> Done:
        """Do a job in this thread.

        Kernels that fail for a passing reason are attempted again here: then they are a result, without which each of
        their wheels tries by itself. Whatever else does so waits before the scheduler has it attempted again.

        Raises:
            PassingError: It was ended, since nobody wanted it; whoever wants it by now has it done again.
        """
        run = self._running[job.key] = _Run(threading.get_ident())
        try:
            for attempt in range(1, ATTEMPTS + 1):
                done = perform(job, self.site, given)
                here = job.kind == "kernels"
                if done.passing and (attempt < ATTEMPTS or not here):
                    run.unwanted.wait(self._pause * attempt)
                if run.unwanted.is_set():
                    raise PassingError(done)
                if not (done.passing and here):
                    break
            return done
        finally:
            with _GUARD:
                run.over = True
                if self._running.get(job.key) is run:
                    del self._running[job.key]

    def _end(self, key: str, run: _Run) -> None:
        waited = threading.Event()
        while self._running.get(key) is run:
            run.unwanted.set()
            with _GUARD:  # once it is over its thread may do another job
                if not run.over:
                    end_command_of(run.thread)
            waited.wait(_LOOKS_SECONDS)


def do_job(text: str, *given: Done) -> Done:
    """Do a job on the worker that this runs in: the one function that a client has workers run.

    Args:
        text: The job, as JSON.
        given: Results of the jobs before it.

    Raises:
        PassingError: Another attempt may succeed.
        FarmError: This is no worker of a farm, or one of another version.
    """
    from distributed import get_worker  # noqa: PLC0415  (only here is there one)

    worker = get_worker()
    plugin = worker.plugins.get(JobPlugin.name)
    if not isinstance(plugin, JobPlugin):
        raise FarmError(
            "the worker was not started by this program",
            where=worker.address,
            next_step="start workers with cpuwheels farm worker",
        )
    job = Job.model_validate_json(text)
    done = plugin.run(job, given)
    if done.code in MACHINE:
        # Others do its jobs; whoever runs this machine sees it end, and why.
        worker.loop.add_callback(worker.close_gracefully, reason=f"cpuwheels: {done.output[:200]}")
        raise PassingError(done)
    if done.passing and job.kind != "kernels":
        raise PassingError(done)
    return done


def forget_carried(key: str, dask_worker: Worker) -> None:
    """Take kernels or an audit out of a worker's stores that another machine made; what was made there stays.

    Args:
        key: Of the entry.
        dask_worker: The worker that this runs in, as dask.distributed names the argument.
    """
    plugin = dask_worker.plugins.get(JobPlugin.name)
    if not isinstance(plugin, JobPlugin):
        return
    store = Store(plugin.site.paths.cache)
    for trust in Trust:
        own = store.trusting(trust)
        for kind in KINDS:
            if sealed_origin(own.path(kind, key)) is not None:
                own.discard(kind, key)
