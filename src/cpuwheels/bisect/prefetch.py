"""Wheels that may be needed next, made during other waits."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
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
    """

    def __init__(self, get: Callable[[str], object]) -> None:
        self._get = get
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="ahead")
        self._begun: list[Future[None]] = []
        self._threads: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.begin(())
        end_all(self._begun, self._threads)
        self._pool.shutdown()

    def begin(self, commits: Sequence[str]) -> None:
        """Get these, in their order; earlier ones that have not been begun are left out.

        Args:
            commits: Full hashes.
        """
        for future in self._begun:
            future.cancel()
        under_way = [future for future in self._begun if not future.done()]
        self._begun = [*under_way, *(self._pool.submit(self._one, commit) for commit in commits)]

    def _one(self, commit: str) -> None:
        self._threads.add(threading.get_ident())
        self._get(commit)
