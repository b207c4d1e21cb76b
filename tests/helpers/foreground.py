"""Run a program to its end, and leave nothing of it behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import FrameType

GRACE_SECONDS = 30.0
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PAUSE = 0.1


def run(command: Sequence[str], folder: Path) -> int:
    """Run a program in the foreground and return its exit code; Ctrl-C reaches it too, and it ends tidily."""
    process = subprocess.Popen(command, cwd=folder)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue


def run_group(command: Sequence[str], folder: Path, *, grace: float = GRACE_SECONDS) -> int:
    """Run a program in a process group of its own, which ends when a signal would end this process.

    Returns:
        The program's exit code, or 128 and the number of the signal.

    Args:
        command: The program, which must not read from the terminal.
        folder: Where it is run.
        grace: Seconds for all of the group to end by that signal; after them it is killed.
    """
    received: list[int] = []
    group: list[int] = []

    def forward(number: int, _: FrameType | None) -> None:
        received.append(number)
        for leader in group:
            _signal_group(leader, number)

    with _handled(forward):
        process = subprocess.Popen(command, cwd=folder, process_group=0)
        group.append(process.pid)
        for number in tuple(received):  # came before there was a group
            _signal_group(process.pid, number)
        while not received and process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_PAUSE)
        if not received:
            return process.returncode
        deadline = time.monotonic() + grace
        while _signal_group(process.pid, 0) and time.monotonic() < deadline:
            process.poll()  # a group with an unreaped leader is still there
            time.sleep(_PAUSE)
        _signal_group(process.pid, signal.SIGKILL)
        process.wait()
    return 128 + received[0]


@contextlib.contextmanager
def _handled(handler: signal._HANDLER) -> Iterator[None]:
    """Handle the signals that would end this process, except those it was started to ignore."""
    before = {number: signal.getsignal(number) for number in _ENDING}
    caught = {number: old for number, old in before.items() if old != signal.SIG_IGN}
    for number in caught:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in caught.items():
            signal.signal(number, old)


def _signal_group(leader: int, number: int) -> bool:
    """Send a signal to a group, and return whether there is still one."""
    try:
        os.killpg(leader, number)
    except ProcessLookupError:
        return False
    return True
