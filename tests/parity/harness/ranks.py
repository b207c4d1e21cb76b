"""Ranks: processes that call operators together, as the workers of one model do, or one that must not change others."""

from __future__ import annotations

import faulthandler
import gc
import multiprocessing
import secrets
import signal
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import torch

SECONDS = 120
"""How long ranks may take: less than one on an idle machine, and as long as it takes on a busy one."""
SEGMENTS = Path("/dev/shm")
"""Where Linux keeps segments of shared memory by name."""
_CONTEXT = multiprocessing.get_context("fork")


class RanksError(AssertionError):
    """A rank raised, died, or did not finish."""


@dataclass(frozen=True)
class Member:
    """One rank of a group that has a manager of shared memory.

    Attributes:
        rank: Its number.
        handle: Its manager.
        barrier: Where all of them can wait for each other.
    """

    rank: int
    handle: int
    barrier: Barrier


def shared(tensor: torch.Tensor) -> torch.Tensor:
    """Move a tensor, with its guards, to memory that it will share with the ranks; what they write is seen here."""
    tensor.share_memory_()
    return tensor


def run_alone(library: Any, run: Callable[[], Mapping[str, torch.Tensor]]) -> Mapping[str, torch.Tensor]:
    """Run a call in a process of its own, and return its outputs.

    Raises:
        RanksError: It raised, died, or took too long.
    """
    with tempfile.TemporaryDirectory() as folder:
        outputs = Path(folder) / "outputs.pt"
        run_ranks(library, [lambda: torch.save(dict(run()), outputs)])
        return torch.load(outputs)


def run_ranks(library: Any, bodies: Sequence[Callable[[], object]], *, seconds: int = SECONDS) -> None:
    """Run each function in a process of its own, forked from this one.

    What they called counts as called by the library here. All are gone when this returns.

    Raises:
        RanksError: One of them raised, died, or took longer than ``seconds``.
    """
    threads = torch.get_num_threads()
    processes, readers = [], []
    try:
        for body in bodies:
            reader, writer = _CONTEXT.Pipe(duplex=False)
            process = _CONTEXT.Process(target=_rank, args=(library, body, threads, seconds, writer), daemon=True)
            process.start()
            writer.close()
            processes.append(process)
            readers.append(reader)
        _await(library, readers, processes, seconds)
    finally:
        for process in processes:
            process.kill()
            process.join()


def run_group(
    library: Any, count: int, slots: int, body: Callable[[Member], object], *, seconds: int = SECONDS
) -> None:
    """Run a function in the ranks of a group that has managers of shared memory.

    Args:
        library: Where the operators come from.
        count: How many ranks.
        slots: Into how many parts each manager divides its work; vLLM takes the number of threads.
        body: Is run in each rank.
        seconds: How long ranks may take.
    """
    name = f"parity-{secrets.token_hex(8)}"
    barrier = _CONTEXT.Barrier(count)

    def join(rank: int) -> None:
        handle = library.init_shm_manager(name, count, rank, slots)
        barrier.wait(SECONDS)
        library.join_shm_manager(handle, name)
        barrier.wait(SECONDS)
        # All have it open, and without a name it is gone when the last of them ends, however that ends.
        remove_segments(name)
        body(Member(rank, handle, barrier))

    try:
        run_ranks(library, [partial(join, rank) for rank in range(count)], seconds=seconds)
    finally:
        remove_segments(name)


def remove_segments(name: str) -> None:
    """Remove the names of a group's segments."""
    for segment in SEGMENTS.glob(f"{name}_*"):
        segment.unlink(missing_ok=True)


def _await(library: Any, readers: Sequence[Connection], processes: Sequence[BaseProcess], seconds: int) -> None:
    """Wait until all ranks have said that they are done."""
    waiting = list(readers)
    end = time.monotonic() + seconds
    while waiting:
        ready = wait(waiting, max(end - time.monotonic(), 0))
        if not ready:
            late = ", ".join(str(readers.index(reader)) for reader in waiting)
            raise RanksError(f"after {seconds} seconds these ranks are not done: {late}")
        for reader in ready:
            assert isinstance(reader, Connection)
            try:
                problem, called = reader.recv()
            except EOFError:
                problem, called = _death(processes[readers.index(reader)]), set()
            if problem:
                raise RanksError(f"rank {readers.index(reader)}: {problem}")
            library.called.update(called)
            waiting.remove(reader)


def _death(process: BaseProcess) -> str:
    process.join(SECONDS)
    status = process.exitcode or 0
    return f"it was killed by {signal.Signals(-status).name}" if status < 0 else f"it ended with status {status}"


def _rank(library: Any, body: Callable[[], object], threads: int, seconds: int, writer: Connection) -> None:
    """Run a function in this process, which is new, and say how it went.

    The signal ends it also where an operator waits for ever, and if the process that started it is gone.
    """
    # A collection would touch, and so copy, what this process shares with the one that started it.
    gc.disable()
    # What kills it is said by the process that started it.
    faulthandler.disable()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(2 * seconds)
    library.called.clear()

    def run() -> None:
        try:
            # OpenMP's threads belong to the thread that started them, and are not in a fork: a new one has its own.
            torch.set_num_threads(threads)
            body()
        except BaseException:  # noqa: BLE001 - whatever it is, the process that started this one reports it
            writer.send((traceback.format_exc(), set()))
        else:
            writer.send(("", library.called))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
