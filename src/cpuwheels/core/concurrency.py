"""Threads: functions side by side that are ended together, and what a block begins or does for as long as it lasts."""

from __future__ import annotations

import contextlib
import contextvars
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed, wait
from typing import TYPE_CHECKING, TypeVar

from cpuwheels.core.process import end_command_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from concurrent.futures import Future

T = TypeVar("T")
_PAUSE_SECONDS = 0.1


def run_parallel(tasks: Sequence[Callable[[], T]], at_once: int) -> list[T]:
    """Return what functions return, in their order.

    If one raises, or the run is interrupted, the commands that the others wait for are ended, and nothing more is
    begun.

    Args:
        tasks: The functions.
        at_once: How many run at once at most.
    """
    if at_once <= 1 or len(tasks) <= 1:
        return [task() for task in tasks]
    threads: set[int] = set()
    failed = threading.Event()

    def known(task: Callable[[], T]) -> T:
        if failed.is_set():
            raise CancelledError
        threads.add(threading.get_ident())
        try:
            return task()
        except BaseException:
            failed.set()
            raise

    with ThreadPoolExecutor(at_once, thread_name_prefix="beside") as pool:
        futures = [pool.submit(contextvars.copy_context().run, known, task) for task in tasks]
        try:
            for future in as_completed(futures):
                future.result()
        except BaseException as error:
            failed.set()
            end_all(futures, threads)
            if isinstance(error, CancelledError):
                # One that was not begun may be done before the one whose failure is why.
                failures = (each.exception() for each in futures)
                raise next((it for it in failures if it and not isinstance(it, CancelledError)), error) from None
            raise
    return [future.result() for future in futures]


def end_all(futures: Collection[Future[T]], threads: Collection[int]) -> None:
    """End the commands that threads wait for, until what they work on is over.

    Args:
        futures: What they work on.
        threads: Their identities; those that have begun meanwhile may be added.
    """
    while wait(futures, _PAUSE_SECONDS).not_done:
        for thread in list(threads):
            end_command_of(thread)


@contextlib.contextmanager
def begun(work: Callable[[], T]) -> Iterator[Callable[[], T]]:
    """Begin something that takes time, and yield what waits for it: its result is returned, its error raised.

    If the block ends before it, the command that it waits for is ended, and an error that nobody has asked for is not
    told.

    Args:
        work: What is done on a thread of its own.
    """
    threads: set[int] = set()

    def known() -> T:
        threads.add(threading.get_ident())
        return work()

    with ThreadPoolExecutor(1, thread_name_prefix="begun") as pool:
        future = pool.submit(contextvars.copy_context().run, known)
        try:
            yield future.result
        finally:
            end_all([future], threads)


@contextlib.contextmanager
def in_background(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Do something for as long as the block lasts, and wait for its end.

    Args:
        work: Returns soon after the event that it is given is set.
    """
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextlib.contextmanager
def ended_after(seconds: float | None) -> Iterator[threading.Event]:
    """End the commands that this thread waits for when a time limit is over; the event is set if it was.

    Args:
        seconds: From the start of the block; None for no limit.
    """
    late, thread = threading.Event(), threading.get_ident()

    def stop() -> None:
        late.set()
        while not done.wait(_PAUSE_SECONDS):
            end_command_of(thread)

    done = threading.Event()
    timer = threading.Timer(seconds, stop) if seconds is not None else None
    if timer:
        timer.daemon = True
        timer.start()
    try:
        yield late
    finally:
        done.set()
        if timer:
            timer.cancel()
            timer.join()
