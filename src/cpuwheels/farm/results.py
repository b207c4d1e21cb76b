"""Results of a farm's jobs as its client knows them: where each is, who will use it, and when it is given up."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from cpuwheels.farm.done import with_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from distributed import Client
    from distributed import Future as DaskFuture

    from cpuwheels.farm.done import Done
    from cpuwheels.farm.given import Given
    from cpuwheels.farm.job import Job


class Results:
    """The results; whoever uses them sees to it that only one thread does.

    Attributes:
        given: Jobs that the farm was given, by key.
        expected: Those without a result, and others that will be given.
        futures: The future of dask that has the result of a job.
        known: What returns a result that is here.
        kernels: Who made which kernels, without their files.
    """

    def __init__(self) -> None:
        self.given: dict[str, Given] = {}
        self.expected: dict[str, Job] = {}
        self.futures: dict[str, DaskFuture[Done]] = {}
        self.known: dict[str, Callable[[], Done]] = {}
        self.kernels: dict[str, Done] = {}

    def know(self, done: Done, dist: Path) -> None:
        """Take a result that is in an output folder; its files are read when a worker needs them."""
        self.known[done.key] = partial(with_files, done, dist / done.folder) if done.folder else lambda: done
        self.futures.pop(done.key, None)
        self.given.pop(done.key, None)

    def at_farm(self, key: str, client: Client) -> object:
        """Return where a result is for other jobs; one that is here is sent to a worker.

        Args:
            key: Of its job.
            client: Of the farm.
        """
        if key not in self.futures:
            self.futures[key] = client.scatter(self.known[key](), hash=False)
        return self.futures[key]

    def were_sent(self, keys: Iterable[str]) -> bool:
        """Return whether some of these results were sent from here; those are sent anew when they are needed again."""
        sent = self.known.keys() & set(keys)
        for key in sent:
            self.futures.pop(key, None)
        return bool(sent)

    def give_up(self, given: Given) -> None:
        """Have workers give up what no job will use once this one is done; else it would be made again.

        Kernels stay here: a job that comes later may use them.
        """
        self.expected.pop(given.job.key, None)
        used, over = self._used_by(self.expected.values()), {given.job.key, *given.job.after}
        for keys in (used, over):  # and what these would be made from again
            keys.update(self._used_by(one.job for one in self.given.values() if one.job.key in keys))
        for key in over - used:
            one = self.given.get(key)
            if one is not None and not one.result.done():
                continue
            future = self.futures.pop(key, None)
            for each in [*([future] if future else []), *(one.attempts if one else ())]:
                each.release()
            if one is None:
                continue
            one.attempts.clear()
            if one.job.kind != "kernels" or one.result.exception() is not None:
                del self.given[key]
            elif key in self.kernels:
                self.known[key] = one.result.result

    def unfinished(self) -> list[Given]:
        """Return the jobs that the farm was given and that have no result."""
        return [one for one in self.given.values() if not one.result.done()]

    @staticmethod
    def _used_by(jobs: Iterable[Job]) -> set[str]:
        return {key for job in jobs for key in job.after}
