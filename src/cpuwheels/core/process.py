"""Child processes: each has a log file and a closed environment, and none is left running."""

from __future__ import annotations

import collections
import contextlib
import ctypes
import logging
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import CommandError
from cpuwheels.core.filesystem import storage_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

log_commands = logging.getLogger(__name__)

TAIL_LINES = 30
_GRACE_SECONDS = 10
_PR_SET_PDEATHSIG = 1  # <sys/prctl.h>: signal a child when its parent dies
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None

_RUNNING: dict[int, subprocess.Popen[str]] = {}
"""Commands under way, by the thread that waits for each."""


@dataclass(frozen=True)
class Completed:
    """A finished command.

    Attributes:
        returncode: Exit status; negative for a signal.
        output: Its last lines of stdout and stderr, in the order written.
    """

    returncode: int
    output: str


def run(
    argv: Sequence[str | Path],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    on_line: Callable[[str], None] | None = None,
    stdin: int | None = None,
    check: bool = True,
) -> Completed:
    """Run a command to its end, every line of its output into ``log``.

    The command gets a process group of its own; when this process is interrupted the whole group is ended
    first, and when this process dies the command gets a signal to stop.

    Args:
        argv: The command; never passed to a shell.
        log: Appended to; its folder is made.
        env: The whole environment; `closed_environment()` if not given.
        cwd: Working folder.
        on_line: Called with each line, without its end.
        stdin: File descriptor that it reads; nothing if not given.
        check: Whether a status other than 0 raises.

    Raises:
        CommandError: The program is not there, or failed while ``check`` is set.
        StoreError: The log cannot be written.
        DiskFullError: No space is left for the log.
    """
    command = [str(part) for part in argv]
    tail: collections.deque[str] = collections.deque(maxlen=TAIL_LINES)
    with storage_errors(log.parent), _opened(log) as stream:
        child = _started(
            command,
            stream,
            log=log,
            env=closed_environment() if env is None else env,
            cwd=cwd,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=subprocess.PIPE,
        )
        _RUNNING[threading.get_ident()] = child
        try:
            assert child.stdout is not None  # noqa: S101  (PIPE was requested)
            for line in child.stdout:
                stream.write(line)
                stream.flush()
                tail.append(line.rstrip("\n"))
                if on_line is not None:
                    on_line(tail[-1])
            child.wait()
        finally:
            del _RUNNING[threading.get_ident()]
            _end_group(child)
            if child.stdout is not None:
                child.stdout.close()
        stream.write(f"# exit status {child.returncode}\n")
    completed = Completed(child.returncode, "\n".join(tail))
    if check and completed.returncode != 0:
        raise CommandError(
            f"{command[0].rsplit('/', 1)[-1]} failed with status {completed.returncode}",
            where=shlex.join(command),
            log=log,
            output=completed.output,
            next_step="read the log",
        )
    return completed


@contextlib.contextmanager
def background(
    argv: Sequence[str | Path], *, log: Path, env: Mapping[str, str], cwd: Path | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Run a command while the block runs, its output in ``log``; its whole process group is gone afterwards.

    Args:
        argv: The command; never passed to a shell.
        log: Appended to; its folder is made.
        env: The whole environment.
        cwd: Working folder.

    Yields:
        Its process.

    Raises:
        CommandError: The program is not there.
        StoreError: The log cannot be written.
    """
    command = [str(part) for part in argv]
    with storage_errors(log.parent), _opened(log) as stream:
        child = _started(command, stream, log=log, env=env, cwd=cwd, stdout=stream)
    try:
        yield child
    finally:
        _end_group(child)
        _end_rest(child.pid)


def relay(argv: Sequence[str | Path], *, env: Mapping[str, str], umask: int) -> Completed:
    """Run a command of ours that talks to the user on stderr, and return what it wrote to stdout.

    It gets the same signals from a terminal as this process, and a signal to stop when this process dies.

    Args:
        argv: The command; never passed to a shell.
        env: The whole environment.
        umask: Of the command.

    Raises:
        CommandError: The program is not there.
    """
    command = [str(part) for part in argv]
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env=dict(env),
            umask=umask,
            preexec_fn=_die_with_parent if _LIBC else None,  # noqa: PLW1509  (one system call, no lock)
        )
    except OSError as error:
        raise CommandError(f"cannot start {command[0]}: {error.strerror}", where=shlex.join(command)) from error
    _RUNNING[threading.get_ident()] = child
    try:
        output, _ = child.communicate()
    except BaseException:
        child.terminate()
        child.wait()
        raise
    finally:
        del _RUNNING[threading.get_ident()]
    return Completed(child.returncode, output)


def end_command_of(thread: int) -> None:
    """End the command that another thread waits for in `run`, if there is one: only the main thread gets signals.

    Args:
        thread: Its `threading.get_ident`.
    """
    child = _RUNNING.get(thread)
    if child is not None:
        _end_group(child)


def how_ended(status: int) -> str:
    """Return how a process ended, in words that follow its name."""
    return f"was killed by {signal_name(-status)}" if status < 0 else f"ended with status {status}"


def signal_name(number: int) -> str:
    """Return a signal's name, or its number in words if it has none, like the real-time signals."""
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def _opened(log: Path) -> TextIO:
    log.parent.mkdir(parents=True, exist_ok=True)
    return log.open("a", encoding="utf-8")


def _started(
    command: list[str],
    stream: TextIO,
    *,
    log: Path,
    env: Mapping[str, str],
    cwd: Path | None,
    stdout: int | TextIO,
    stdin: int = subprocess.DEVNULL,
) -> subprocess.Popen[str]:
    """Write a command into its log and start it in a process group of its own."""
    line = shlex.join(command)
    log_commands.info("$ %s", line)
    stream.write(f"$ {line}\n")
    stream.flush()
    try:
        return subprocess.Popen(
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
            umask=0o022,
            preexec_fn=_die_with_parent if _LIBC else None,  # noqa: PLW1509  (one system call, no lock)
        )
    except OSError as error:
        raise CommandError(
            f"cannot start {command[0]}: {error.strerror}",
            where=shlex.join(command),
            log=log,
            next_step=f"install {command[0].rsplit('/', 1)[-1]}, or put it on PATH",
        ) from error


def _die_with_parent() -> None:
    assert _LIBC is not None  # noqa: S101
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _end_rest(group: int) -> None:
    """End what a command left running in its process group, after a moment in which it may end by itself."""
    with contextlib.suppress(ProcessLookupError):
        for _ in range(_GRACE_SECONDS * 10):
            os.killpg(group, 0)
            time.sleep(0.1)
        os.killpg(group, signal.SIGKILL)


def _end_group(child: subprocess.Popen[str]) -> None:
    if child.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
    try:
        child.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
