"""Wheels that may be needed next, made during other waits."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Self

from cpuwheels.core.concurrency import end_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future


class Prefetch:
    """Gets wheels one after the other in a thread of its own; a context that ends what is under way.

    An error is reported when the wheel is needed and made again.

    Args:
        get: Gets the wheel of a commit, and keeps it.
        pause: Seconds before the first wheel is begun: if the wait is shorter, the wheel of a commit that is not tested
            after all would only be in the way.
    """

    def __init__(self, get: Callable[[str], object], pause: float = 0.0) -> None:
        self._get, self._pause = get, pause
        self._over = threading.Event()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="ahead")
        self._begun: list[tuple[str, Future[None]]] = []
        self._threads: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.begin(())
        end_all([future for _, future in self._begun], self._threads)
        self._pool.shutdown()

    def begin(self, commits: Sequence[str]) -> None:
        """Get these, in their order, but for one that is under way; earlier ones that were not begun are left out.

        Args:
            commits: Full hashes.
        """
        self._leave_out()
        self._over = over = threading.Event()
        until = time.monotonic() + self._pause
        known = {commit for commit, _ in self._begun}
        self._begun += [(one, self._pool.submit(self._one, one, until, over)) for one in commits if one not in known]

    def keep_only(self, commit: str) -> bool:
        """The wait is over: leave out all that have not been begun, end the one under way unless it is a commit's own.

        Args:
            commit: Full hash.

        Returns:
            Whether this one is under way.
        """
        self._leave_out()
        end_all([future for name, future in self._begun if name != commit], self._threads)
        return any(name == commit and not future.done() for name, future in self._begun)

    def wait(self) -> None:
        """Wait for what is under way, whatever comes of it."""
        wait([future for _, future in self._begun])

    def _leave_out(self) -> None:
        self._over.set()
        for _, future in self._begun:
            future.cancel()
        self._begun = [(commit, future) for commit, future in self._begun if not future.done()]

    def _one(self, commit: str, until: float, over: threading.Event) -> None:
        if not over.wait(until - time.monotonic()):
            self._threads.add(threading.get_ident())
            self._get(commit)
