"""Queries to other programs: what they write to stdout is the answer."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import tempfile
import time
from typing import TYPE_CHECKING

from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import CommandError
from cpuwheels.core.process import Completed, awaited, how_ended
from cpuwheels.core.step_limits import check_deadline, time_left
from cpuwheels.core.supervised import LostError, chunks, start

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from cpuwheels.core.supervised import Child

_BLOCK = 1 << 22
_PIPE = 1 << 20
"""Bytes that a command can write before it waits for this process, whose other threads may be busy. As much as Linux
gives an ordinary user (pipe(7), pipe-max-size)."""
_MOST_COMPLAINTS = 1 << 20
_MOST_BYTES = 1 << 30
"""What an answer may have; more would be an endless one."""


class _NoAnswerError(Exception):
    """A program took too long, or wrote too much."""


def capture(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    timeout: float = 60,
    both: bool = False,
    text: str = "",
) -> Completed:
    """Run a short query such as ``g++ --version`` and return its stdout; a missing program is status 127.

    A program that does not answer within ``timeout`` seconds, or without end, is ended and counts as status 124. With
    ``both``, stderr follows stdout even when the program succeeds. It reads ``text`` from its stdin.
    """
    command = [str(part) for part in argv]
    environment = dict(closed_environment() if env is None else env)
    end = time.monotonic() + timeout
    try:
        with _piped(command, environment, text.encode()) as (child, stdout, stderr):
            said, complaints = _answer(child, stdout, stderr, end)
    except (_NoAnswerError, LostError) as error:
        return Completed(124, f"no answer within {timeout:g} s" if time.monotonic() >= end else str(error))
    except OSError as error:  # no such program, or no descriptors left
        return Completed(127, str(error))
    status = child.wait()
    return Completed(status, said if status == 0 and not both else said + complaints)


def _answer(child: Child, stdout: int, stderr: int, end: float) -> tuple[str, str]:
    """Return what a program writes to both.

    Raises:
        _NoAnswerError: It is still writing at a monotonic time, or has written too much.
    """
    parts: dict[int, list[bytes]] = {stdout: [], stderr: []}
    count = 0

    def patience() -> float:
        left = end - time.monotonic()
        if left <= 0:
            raise _NoAnswerError
        return left

    for source, block in chunks(child, stdout, stderr, patience=patience):
        parts[source].append(block)
        count += len(block)
        if count > _MOST_BYTES:
            raise _NoAnswerError(f"an answer of more than {_MOST_BYTES >> 20} MiB")
    return _text(b"".join(parts[stdout])), _text(b"".join(parts[stderr]))


def blocks(argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None, stdin: bytes = b"") -> Iterator[bytes]:
    """Run a command that writes more than fits in memory and yield its stdout, whole lines at a time.

    Args:
        argv: The command; never passed to a shell.
        env: The whole environment; `closed_environment()` if not given.
        stdin: What it reads.

    Raises:
        CommandError: The program is not there, or failed; what it wrote to stderr is shown.
        PostponedError: The time of the whole run is up.
    """
    command = [str(part) for part in argv]
    complaints = b""

    def patience() -> float:
        check_deadline(command[0])
        left = time_left()
        return 3600.0 if left is None else left

    try:
        with _piped(command, dict(closed_environment() if env is None else env), stdin) as (child, stdout, stderr):
            _enlarge(stdout)
            rest: list[bytes] = []
            size = 0
            for source, block in chunks(child, stdout, stderr, patience=patience):
                if source == stderr:
                    complaints = (complaints + block)[-_MOST_COMPLAINTS:]
                    continue
                rest.append(block)
                size += len(block)
                if size >= _BLOCK:
                    lines, end, cut = b"".join(rest).rpartition(b"\n")
                    rest, size = [cut], len(cut)
                    yield lines + end
            lines, end, cut = b"".join(rest).rpartition(b"\n")
            yield lines + end
            yield cut
    except OSError as error:
        raise CommandError(f"cannot start {command[0]}: {error.strerror}", where=shlex.join(command)) from error
    if child.returncode != 0:
        raise CommandError(
            f"{command[0].rsplit('/', 1)[-1]} {how_ended(child.wait())}",
            where=shlex.join(command),
            output=complaints.decode(errors="replace"),
            next_step="read its output",
        )


@contextlib.contextmanager
def _piped(command: list[str], env: Mapping[str, str], text: bytes) -> Iterator[tuple[Child, int, int]]:
    """Run a command for as long as the block lasts; yield it with the pipes of its stdout and stderr.

    Raises:
        StartError: The program is not there.
    """
    (out, out_end), (err, err_end) = os.pipe(), os.pipe()
    try:
        with tempfile.TemporaryFile() if text else open(os.devnull, "rb") as question:  # noqa: PTH123
            if text:
                question.write(text)
                question.seek(0)
            child = start(command, env=env, stdin=question.fileno(), stdout=out_end, stderr=err_end, outputs=[out, err])
    except BaseException:
        os.close(out)
        os.close(err)
        raise
    finally:
        os.close(out_end)
        os.close(err_end)
    with awaited(child, out, err):
        yield child, out, err


def _enlarge(pipe: int) -> None:
    """Make a pipe larger where the system can, and the user may: it works without, more slowly."""
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE)


def _text(answer: bytes) -> str:
    return answer.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
