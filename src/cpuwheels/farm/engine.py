"""What is set of dask.distributed, and where a farm's scheduler and nannies differ from its own."""

from __future__ import annotations

from typing import Any

from distributed import Nanny, Scheduler

SETTINGS = {
    # Jobs are commands that take minutes: their memory is not the worker's, and a silent worker is not yet a dead one.
    "distributed.scheduler.allowed-failures": 2,
    "distributed.scheduler.worker-ttl": "5 minutes",
    "distributed.worker.daemon": False,
    "distributed.comm.timeouts.connect": "20s",
    # What they look after of themselves many times a second would be some percent of a CPU while a job runs.
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.tick.limit": "1 minute",
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.worker.profile.enabled": False,
    # Nothing is shown by HTTP: that has neither certificates nor encryption.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
"""What is set of dask's configuration; whatever a user has set for dask is left as it is otherwise."""

HEARTBEAT_SECONDS = 5.0
"""Between two reports of a worker. dask has half a second, which is half a percent of a CPU for each worker."""

_INTERVAL = "heartbeat-interval"

NO_PAGES = "127.0.0.1:0"
"""Where the servers of pages listen that dask starts even without pages."""


class FarmScheduler(Scheduler):
    """A scheduler to which workers report every few seconds; that they live is seen from their connection."""

    def heartbeat_worker(self, **facts: Any) -> dict[str, Any]:  # noqa: ANN401  (as dask has it)
        """Take a worker's report, and tell it when to send the next."""
        answer: dict[str, Any] = super().heartbeat_worker(**facts)
        return answer | {_INTERVAL: max(answer[_INTERVAL], HEARTBEAT_SECONDS)} if _INTERVAL in answer else answer


class FarmNanny(Nanny):
    """A nanny that keeps the reason why its worker ended, if that ended by itself or was told to."""

    reason = ""

    def close_gracefully(self, reason: str = "") -> None:
        """Note the reason."""
        self.reason = reason
        super().close_gracefully(reason)
