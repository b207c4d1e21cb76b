"""Commands that run upstream's code begin in a process whose environment has no credentials.

A process cannot take back the environment that it was started with: ``/proc/<pid>/environ`` shows it to the end. So the
command starts itself anew without the credentials, before it has read anything. What a build needs although it has a
password in it, such as the URL of a package index, goes through a pipe: the new process has it in its memory alone.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from cpuwheels.config.credentials import sift

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, MutableMapping
    from typing import NoReturn

    from cpuwheels.cli.folders import Folders

HANDOVER = "CPUWHEELS_HANDOVER"
"""Variable with the number of the pipe's end."""

_MOST = 60_000
"""Bytes that a pipe takes before somebody reads it; Linux's holds 65,536."""


def without_credentials(
    command: Callable[..., Any] | None = None, *, when: Callable[[Mapping[str, Any]], bool] = lambda _: True
) -> Callable[..., Any]:
    """Have a command start anew if its environment has credentials; the decorator next to the function.

    Args:
        command: Run by click; it may have an option ``env``, with names of variables that the user hands out on
            purpose.
        when: Returns whether it runs upstream's code, given its options.
    """
    if command is None:
        return functools.partial(without_credentials, when=when)

    @click.pass_obj
    @functools.wraps(command)
    def run(folders: Folders, /, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401  (whatever the command takes)
        if folders.may_start_anew and when(options):
            start_anew(os.environ, options.get("env") or ())
        return command(*arguments, **options)

    return run


def start_anew(environ: Mapping[str, str], handed_out: Iterable[str] = ()) -> None:
    """Start this command anew if its environment has credentials; otherwise return.

    Args:
        environ: What it was started with.
        handed_out: Names of variables that are kept although they are credentials.
    """
    found = sift(environ)
    wanted = set(handed_out)
    kept = found.settings | {name: environ[name] for name in found.credentials if name in wanted}
    removed = [name for name in found.credentials if name not in wanted]
    if removed:
        _print_note(f"not in the environment of this command, since it runs code of vLLM: {', '.join(removed)}")
    if removed or kept:
        _replace_process(found.harmless, kept)


def take_over(environ: MutableMapping[str, str]) -> bool:
    """Return whether this process was started by `start_anew`, and complete its environment then."""
    number = environ.pop(HANDOVER, "")
    if not number.isdecimal():
        return False
    with os.fdopen(int(number), "rb") as pipe:
        environ.update(json.loads(pipe.read()))
    return True


def _replace_process(harmless: dict[str, str], kept: dict[str, str]) -> NoReturn:
    content = json.dumps(kept).encode()
    if len(content) > _MOST:
        raise click.UsageError("the settings with a password in them are longer than 60,000 bytes")
    reading, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    os.set_inheritable(reading, True)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    command = [sys.executable, *sys.orig_argv[1:]]
    os.execve(sys.executable, command, harmless | {HANDOVER: str(reading)})  # noqa: S606  (this very command)


def note_ancestors() -> None:
    """Print which of the processes that led to this one have credentials in their environment that can be read."""
    import psutil

    found = []
    for process in psutil.Process().parents():
        try:
            names = sift(process.environ()).credentials
        except (psutil.Error, OSError):
            continue
        if names:
            found.append(f"{', '.join(names)} of {process.name()} ({process.pid})")
    if found:
        _print_note(f"code of vLLM that runs outside of a sandbox can read {'; '.join(found)}")


def _print_note(text: str) -> None:
    from cpuwheels.core.console import Reporter

    Reporter("credentials").announce(text)
