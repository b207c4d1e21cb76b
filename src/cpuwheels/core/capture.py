"""Queries to other programs: what they write to stdout is the answer."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from typing import TYPE_CHECKING

from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import CommandError
from cpuwheels.core.process import Completed, how_ended

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_BLOCK = 1 << 24


def capture(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    timeout: float = 60,
    both: bool = False,
    text: str = "",
) -> Completed:
    """Run a short query such as ``g++ --version`` and return its stdout; a missing program is status 127.

    A program that does not answer within ``timeout`` seconds is ended and counts as status 124. With
    ``both``, stderr follows stdout even when the program succeeds. It reads ``text`` from its stdin.
    """
    command = [str(part) for part in argv]
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            env=dict(closed_environment() if env is None else env),
            timeout=timeout,
            check=False,
        )
    except OSError as error:
        return Completed(127, str(error))
    except subprocess.TimeoutExpired:
        return Completed(124, f"no answer within {timeout:g} s")
    wanted = done.stdout if done.returncode == 0 and not both else done.stdout + done.stderr
    return Completed(done.returncode, wanted)


def blocks(argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None, stdin: bytes = b"") -> Iterator[bytes]:
    """Run a command that writes more than fits in memory and yield its stdout, whole lines at a time.

    Args:
        argv: The command; never passed to a shell.
        env: The whole environment; `closed_environment()` if not given.
        stdin: What it reads.

    Raises:
        CommandError: The program is not there, or failed; what it wrote to stderr is shown.
    """
    command = [str(part) for part in argv]
    with tempfile.TemporaryFile() as complaints, tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        try:
            child = subprocess.Popen(
                command,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=complaints,
                env=dict(closed_environment() if env is None else env),
            )
        except OSError as error:
            raise CommandError(f"cannot start {command[0]}: {error.strerror}", where=shlex.join(command)) from error
        with child:
            assert child.stdout is not None  # noqa: S101  (PIPE was requested)
            rest = b""
            while block := child.stdout.read(_BLOCK):
                lines, end, rest = (rest + block).rpartition(b"\n")
                yield lines + end
            yield rest
        if child.returncode != 0:
            complaints.seek(0)
            raise CommandError(
                f"{command[0].rsplit('/', 1)[-1]} {how_ended(child.returncode)}",
                where=shlex.join(command),
                output=complaints.read().decode(errors="replace"),
                next_step="read its output",
            )
