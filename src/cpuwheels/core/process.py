"""Child processes: each has a log file and a closed environment, and none is left running."""

from __future__ import annotations

import codecs
import collections
import contextlib
import io
import logging
import os
import shlex
import signal
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import CommandError
from cpuwheels.core.filesystem import storage_errors
from cpuwheels.core.fork_server import StartError
from cpuwheels.core.step_limits import StepWatch, check_deadline, deadline_environment, step_limit
from cpuwheels.core.supervised import GRACE_SECONDS, LostError, chunks, start
from cpuwheels.core.urls import without_userinfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from cpuwheels.core.step_limits import StepLimit
    from cpuwheels.core.supervised import Child

log_commands = logging.getLogger(__name__)

TAIL_LINES = 30
_GRACE_SECONDS = GRACE_SECONDS
_LONGEST_LINE = 1 << 20
"""Characters after which a line counts as ended."""

_RUNNING: dict[int, Child] = {}
"""Commands under way, by the thread that waits for each."""


@dataclass(frozen=True)
class Completed:
    """A finished command.

    Attributes:
        returncode: Exit status; negative for a signal.
        output: Its last lines of stdout and stderr, in the order written.
        cpu_seconds: CPU time of all its processes, where it was run with `run`.
    """

    returncode: int
    output: str
    cpu_seconds: float = 0.0


def run(
    argv: Sequence[str | Path],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    on_line: Callable[[str], None] | None = None,
    stdin: int | None = None,
    check: bool = True,
    limit: StepLimit | None = None,
) -> Completed:
    """Run a command to its end, every line of its output into ``log``.

    Nothing of it is left afterwards: what it left in the background gets a moment to end by itself and is ended then.
    The same happens at once when this process is interrupted, or dies.

    Args:
        argv: The command; never passed to a shell.
        log: Appended to; its folder is made. The step is named after it.
        env: The whole environment; `closed_environment()` if not given.
        cwd: Working folder.
        on_line: Called with each line, without its end.
        stdin: File descriptor that it reads; nothing if not given.
        check: Whether a status other than 0 raises.
        limit: What it may take; the limit of the step if not given.

    Raises:
        CommandError: The program is not there, or failed while ``check`` is set.
        StepLimitError: It took too long, was idle for too long, or printed too much.
        PostponedError: The time of the whole run is up.
        StoreError: The log cannot be written.
        DiskFullError: No space is left for the log.
    """
    command = [str(part) for part in argv]
    limit = limit or step_limit(log.stem)
    check_deadline(log.stem)
    tail: collections.deque[str] = collections.deque(maxlen=TAIL_LINES)
    with storage_errors(log.parent), _opened(log) as stream:
        with _output_of(
            command, stream, log=log, env=closed_environment() if env is None else env, cwd=cwd, stdin=stdin
        ) as (child, output):
            for lines in _lines(child, output, StepWatch(log, limit, child), command, log):
                stream.write("\n".join([*lines, ""]))
                stream.flush()
                for line in lines:
                    tail.append(line)
                    if on_line is not None:
                        on_line(line)
        if child.killed:
            stream.write("# what it left running was killed\n")
        stream.write(f"# exit status {child.returncode}\n")
    completed = Completed(child.wait(), "\n".join(tail), child.cpu_seconds)
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
) -> Iterator[Child]:
    """Run a command while the block runs, its output in ``log``; nothing of it is left afterwards.

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
        child = _started(command, stream, log=log, env=env, cwd=cwd, stdout=stream.fileno(), stays=True)
    try:
        yield child
    finally:
        child.close()


def relay(
    argv: Sequence[str | Path], *, env: Mapping[str, str], umask: int = 0o022, cwd: Path | None = None
) -> Completed:
    """Run a command of ours that talks to the user on stderr, and return what it wrote to stdout.

    It is told to stop when this process is interrupted or dies.

    Args:
        argv: The command; never passed to a shell.
        env: The whole environment.
        umask: Of the command.
        cwd: Working folder.

    Raises:
        CommandError: The program is not there.
    """
    command = [str(part) for part in argv]
    read, write = os.pipe()
    try:
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123  (no path of ours)
            child = start(
                command,
                env={**env, **deadline_environment()},
                stdin=nothing.fileno(),
                stdout=write,
                stderr=2,
                outputs=[read],
                cwd=cwd,
                umask=umask,
                grace=_GRACE_SECONDS,
            )
    except StartError as error:
        os.close(read)
        raise CommandError(f"cannot start {command[0]}: {error.strerror}", where=shlex.join(command)) from error
    finally:
        os.close(write)
    with awaited(child, read):
        output = b"".join(block for _, block in chunks(child, read))
    return Completed(child.wait(), output.decode(errors="replace"))


def end_command_of(thread: int) -> None:
    """Have the command ended that another thread waits for, if there is one: only the main thread gets signals.

    Args:
        thread: Its `threading.get_ident`.
    """
    child = _RUNNING.get(thread)
    if child is not None:
        child.end()


@contextlib.contextmanager
def awaited(child: Child, *outputs: int) -> Iterator[None]:
    """Let other threads end a command for as long as the block lasts; nothing of it is left afterwards.

    Args:
        child: The command.
        outputs: The pipes of its output; they are closed.
    """
    thread = threading.get_ident()
    before = _RUNNING.get(thread)
    _RUNNING[thread] = child
    try:
        yield
    finally:
        if before is None:
            _RUNNING.pop(thread, None)
        else:
            _RUNNING[thread] = before
        child.close(*outputs)


def how_ended(status: int) -> str:
    """Return how a process ended, in words that follow its name."""
    return f"was killed by {signal_name(-status)}" if status < 0 else f"ended with status {status}"


def signal_name(number: int) -> str:
    """Return a signal's name, or its number in words if it has none, like the real-time signals."""
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def _opened(log: Path) -> TextIO:
    log.parent.mkdir(parents=True, exist_ok=True)
    return log.open("a", encoding="utf-8")


@contextlib.contextmanager
def _output_of(
    command: list[str], stream: TextIO, *, log: Path, env: Mapping[str, str], cwd: Path | None, stdin: int | None
) -> Iterator[tuple[Child, int]]:
    """Run a command for as long as the block lasts; yield it with the pipe that its output comes through."""
    read, write = os.pipe()
    try:
        child = _started(command, stream, log=log, env=env, cwd=cwd, stdin=stdin, stdout=write, outputs=[read])
    except BaseException:
        os.close(read)
        raise
    finally:
        os.close(write)
    with awaited(child, read):
        yield child, read


def _lines(child: Child, output: int, watch: StepWatch, command: list[str], log: Path) -> Iterator[list[str]]:
    """Yield a command's lines without their ends, all that come at once; one that is too long comes in parts."""
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)
    rest = ""
    try:
        for _, block in chunks(child, output, patience=watch.patience):
            watch.wrote(len(block))
            *lines, rest = (rest + decoder.decode(block)).split("\n")
            if lines:
                yield lines
            if len(rest) > _LONGEST_LINE:
                yield [rest]
                rest = ""
    except LostError as error:
        raise CommandError(
            f"{command[0].rsplit('/', 1)[-1]} was ended: {error.strerror}",
            where=shlex.join(command),
            log=log,
            next_step="run it again; see in the system's log whether memory ran out",
        ) from error
    rest += decoder.decode(b"", final=True)
    if rest:
        yield [rest]


def _started(
    command: list[str],
    stream: TextIO,
    *,
    log: Path,
    env: Mapping[str, str],
    cwd: Path | None,
    stdout: int,
    stdin: int | None = None,
    outputs: Sequence[int] = (),
    stays: bool = False,
) -> Child:
    """Write a command into its log and start it in a process group of its own."""
    line = without_userinfo(shlex.join(command))
    log_commands.info("$ %s", line)
    stream.write(f"$ {line}\n")
    stream.flush()
    try:
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123  (no path of ours)
            return start(
                command,
                env=env,
                stdin=nothing.fileno() if stdin is None else stdin,
                stdout=stdout,
                stderr=stdout,
                outputs=outputs,
                cwd=cwd,
                stays=stays,
                grace=_GRACE_SECONDS,
            )
    except StartError as error:
        raise CommandError(
            f"cannot start {command[0]}: {error.strerror}",
            where=shlex.join(command),
            log=log,
            next_step=f"install {command[0].rsplit('/', 1)[-1]}, or put it on PATH",
        ) from error
