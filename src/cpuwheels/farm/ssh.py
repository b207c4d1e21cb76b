"""Workers on other machines, started by ssh from a list of hosts and ended with the connection.

dask's own ``SSHCluster`` starts dask's workers; these are this program's, which know where jobs are done and what their
machine can do. The certificates are sent over the connection's input, where no list of processes shows them.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import shlex
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from cpuwheels.core.errors import FarmError
from cpuwheels.core.filesystem import storage_errors
from cpuwheels.farm.security import FILES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

SSH = ("ssh", "-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4")
"""A connection that asks nobody for a password, and is given up a minute after the other side has fallen silent."""

COMMAND = ("cpuwheels",)
"""What runs this program on a host whose line names nothing else."""

PAUSE_SECONDS = 30.0
"""Before a worker that ended by itself is started again."""

START_SECONDS = 180.0
"""In which a worker on a host has to be known to the scheduler."""

_END_SECONDS = 20.0
_SHOWN = 20
_END = "end"
# Lines on the input are the certificates; when the input ends, so does the worker.
_SCRIPT = f"""
set -e
umask 077
keys=$(mktemp -d)
while IFS= read -r line && [ "$line" != {_END} ]; do printf '%s\\n' "$line"; done | base64 -d | tar -x -C "$keys"
exec 3<&0
"$@" --farm-keys "$keys" 3<&- &
worker=$!
(cat <&3 >/dev/null; kill "$worker" 2>/dev/null) >/dev/null 2>&1 &
set +e
wait "$worker"
code=$?
rm -rf "$keys"
kill "$!" 2>/dev/null
exit "$code"
"""


@dataclass(frozen=True)
class Host:
    """A machine that ssh reaches.

    Attributes:
        name: As ssh takes it: ``builder-2``, ``user@10.0.0.2``, or a name of its configuration.
        command: What runs this program there.
    """

    name: str
    command: tuple[str, ...] = COMMAND


def read_hosts(path: Path) -> list[Host]:
    """Read a list: on each line a host, and the command that runs this program there if it is not ``cpuwheels``.

    Args:
        path: The file; what follows a ``#`` is a comment.

    Raises:
        FarmError: It has no host, one twice, or a line that means nothing.
        StoreError: It cannot be read.
    """
    with storage_errors(path):
        text = path.read_text(encoding="utf-8", errors="replace")
    found: dict[str, Host] = {}
    for number, line in enumerate(text.splitlines(), 1):
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise _refused(path, f"line {number} cannot be read: {error}") from error
        if not words:
            continue
        if words[0].startswith("-"):
            raise _refused(path, f"line {number}: {words[0]!r:.100} is no host")
        if words[0] in found:
            raise _refused(path, f"line {number}: {words[0]!r:.100} is there twice")
        found[words[0]] = Host(words[0], tuple(words[1:]) or COMMAND)
    if not found:
        raise _refused(path, "it names no host")
    return list(found.values())


def _refused(path: Path, why: str) -> FarmError:
    return FarmError(
        f"the list of hosts is not taken: {why}",
        where=path,
        next_step="write one host on each line, such as builder-2 or user@10.0.0.2",
    )


@contextlib.asynccontextmanager
async def workers_on(
    hosts: Sequence[Host], address: str, keys: Path, tell: Callable[[str], None], more: Sequence[str] = ()
) -> AsyncIterator[None]:
    """Run a worker on each host while the block runs; one that ends by itself is started again.

    Args:
        hosts: The hosts.
        address: Of the scheduler.
        keys: Folder of the certificates.
        tell: Told what they print, and of each that has ended.
        more: Options of each worker.

    Raises:
        FarmError: One of them does not start.
    """
    sent = _certificates(keys)
    connections = [_Connection(host, ("--farm", address, *more), sent, tell) for host in hosts]
    tasks = [asyncio.create_task(one.keep()) for one in connections]
    try:
        await asyncio.gather(
            *(asyncio.wait_for(one.started(task), START_SECONDS) for one, task in zip(connections, tasks, strict=True))
        )
        yield
    except TimeoutError as error:
        silent = [one.host.name for one in connections if not one.ready.is_set()]
        raise FarmError(
            f"no worker has started in {START_SECONDS:.0f} s",
            where=", ".join(silent),
            next_step="see whether these hosts reach the scheduler's address; --host gives another one",
        ) from error
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Connection:
    """The worker of one host."""

    def __init__(self, host: Host, options: Sequence[str], sent: bytes, tell: Callable[[str], None]) -> None:
        self.host, self.ready = host, asyncio.Event()
        self._options, self._sent, self._tell = options, sent, tell
        self._last: list[str] = []

    async def started(self, task: asyncio.Task[None]) -> None:
        """Wait for the worker, or for the end of what keeps it."""
        ready = asyncio.create_task(self.ready.wait())
        either: set[asyncio.Task[Any]] = {ready, task}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if task.done():
            task.result()

    async def keep(self) -> None:
        """Run the worker, again and again once it has started.

        Raises:
            FarmError: It did not start.
        """
        while True:
            code = await self._run()
            if not self.ready.is_set():
                raise FarmError(
                    f"no worker starts on {self.host.name}: ssh ended with status {code}",
                    where=self.host.name,
                    output="\n".join(self._last),
                    next_step=f"try: ssh {self.host.name} {shlex.join(self.host.command)} --version",
                )
            self._tell(f"{self.host.name}: the worker ended with status {code}; it is started again")
            await asyncio.sleep(PAUSE_SECONDS)

    async def _run(self) -> int:
        worker = [*self.host.command, "farm", "worker", *self._options, "--name", self.host.name]
        there = shlex.join(["sh", "-c", _SCRIPT, "sh", *worker])
        process = await asyncio.create_subprocess_exec(
            *SSH,
            "--",
            self.host.name,
            there,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for this program, which ends it in order
        )
        given, told = cast("asyncio.StreamWriter", process.stdin), cast("asyncio.StreamReader", process.stdout)
        try:
            with contextlib.suppress(ConnectionError):
                given.write(self._sent)
                await given.drain()
            async for line in told:
                self._heard(line.decode(errors="replace").rstrip())
            return await process.wait()
        finally:
            given.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(told.read(), _END_SECONDS)
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
            await process.wait()

    def _heard(self, line: str) -> None:
        self._last = [*self._last[1 - _SHOWN :], line]
        if line.startswith("tls://"):
            self.ready.set()
        self._tell(f"{self.host.name}: {line}")


def _certificates(keys: Path) -> bytes:
    """Return the certificates as lines of text, with the line that ends them."""
    stream = io.BytesIO()
    with storage_errors(keys), tarfile.open(fileobj=stream, mode="w") as archive:
        for name in FILES:
            about = tarfile.TarInfo(name)
            content = (keys / name).read_bytes()
            about.size, about.mode = len(content), 0o600
            archive.addfile(about, io.BytesIO(content))
    return base64.encodebytes(stream.getvalue()) + f"{_END}\n".encode()
