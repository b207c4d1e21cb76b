"""A real ``vllm serve`` on this machine's loopback address: started, waited for, inspected, and ended."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from cpuwheels.core.collect import read_regular
from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import CpuwheelsError
from cpuwheels.core.models import parse_as
from cpuwheels.core.process import background, how_ended
from cpuwheels.sandbox.confine import unconfined
from cpuwheels.verification.serving.leftovers import held_files, left_files
from cpuwheels.verification.serving.loaded import Process
from cpuwheels.verification.serving.server_processes import TOKEN, Family, Left, Running

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from cpuwheels.core.supervised import Child
    from cpuwheels.sandbox.confine import Confine

NAME = "tiny"
"""What the model is called in requests."""

LENGTH = 512
"""Tokens of a prompt and its answer at most."""

PATIENCE = 600.0
"""Seconds for a server's start: half a minute on a quiet machine, several minutes on a busy one."""

ENDING = 60.0
"""Seconds for its end."""

_PAUSE_SECONDS = 0.25
_LATE = 30.0
_LONGEST = 1 << 20
_RESOURCES = Path(__file__).with_name("resources")
_WATCH, _WAIT = _RESOURCES / "watch_server.py", _RESOURCES / "wait_for_server.py"


class ServerError(Exception):
    """The server did not do what it should; the message says what."""


@dataclass(frozen=True)
class ServerRequest:
    """How a server is started.

    Attributes:
        python: Interpreter of the environment with the wheel.
        model: Folder of the model.
        dtype: ``float32``, ``bfloat16`` or ``float16``.
        memory: ``--gpu-memory-utilization``: on a CPU the share of the machine's memory.
        env: Its whole environment.
        log: For its output.
        patience: Seconds that it has for its start.
        length: Tokens of a prompt and its answer at most.
        sequences: Requests that it computes at once.
        compiled: Whether torch.compile makes code of the model, which needs a C++ compiler.
        arguments: Further ones of the command line.
        ending: Seconds that it has for its end.
        confine: Confines the server and what waits for it.
    """

    python: Path
    model: Path
    dtype: str
    memory: float
    env: Mapping[str, str]
    log: Path
    patience: float = PATIENCE
    length: int = LENGTH
    sequences: int = 8
    compiled: bool = False
    arguments: tuple[str, ...] = ()
    ending: float = ENDING
    confine: Confine = unconfined

    def command(self, port: int) -> list[str | Path]:
        """Return the command line."""
        return [
            self.python,
            self.python.with_name("vllm"),
            "serve",
            self.model,
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--served-model-name",
            NAME,
            "--dtype",
            self.dtype,
            "--max-model-len",
            str(self.length),
            "--max-num-seqs",
            str(self.sequences),
            *([] if self.compiled else ["--enforce-eager"]),
            "--gpu-memory-utilization",
            f"{self.memory:.6f}",
            *self.arguments,
        ]


class Server:
    """A server that takes requests.

    Attributes:
        url: Of its OpenAI interface.
        started: Seconds that its start took.
    """

    def __init__(self, running: Running, family: Family, port: int, started: float, ending: float) -> None:
        self._running, self._family, self._ending = running, family, ending
        self.url = f"http://127.0.0.1:{port}/v1"
        self.started = started

    def processes(self) -> list[Process] | None:
        """Return what its processes have loaded; None where the system does not show it."""
        if not Path("/proc/self/maps").is_file():
            return None
        first = self._running.program().pid
        members = self._family.members()
        return [
            Process.of(_read(each.pid, "maps"), _read(each.pid, "environ"), is_first=each.pid == first)
            for each in members
        ]

    def end(self) -> int:
        """Ask it to end, as a service manager does, and wait.

        Returns:
            How many names of sockets it left in the file system, at which nobody listens.

        Raises:
            ServerError: It does not end, ends with another status than 0, or leaves processes or shared memory behind.
        """
        left = self._reported() if self._running.watched else self._counted()
        if left.status is None:
            raise ServerError(f"the server did not end within {self._ending:g} s of SIGTERM")
        if left.status != 0:
            raise ServerError(f"on SIGTERM, the server {how_ended(left.status)}")
        if left.processes:
            raise ServerError(f"the server left {left.processes} processes behind")
        if left.shared:
            raise ServerError(f"the server left shared memory behind: {', '.join(left.shared)}")
        return left.sockets

    def _counted(self) -> Left:
        """End it, and count what it left on this machine."""
        held = held_files(self._family.members())
        process = self._running.process
        process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(self._ending)
        except subprocess.TimeoutExpired:
            return Left(status=None)
        _, left = psutil.wait_procs(self._family.members(), timeout=self._ending)
        shared, sockets = left_files(held)
        return Left(status=status, processes=len(left), shared=tuple(shared), sockets=sockets)

    def _reported(self) -> Left:
        """End it, and read what it left in its sandbox."""
        running = self._running
        running.watcher().send_signal(signal.SIGTERM)
        try:
            ended = running.confined.status(running.process.wait(2 * self._ending + _LATE))
        except subprocess.TimeoutExpired:
            return Left(status=None)
        try:
            return parse_as(Left, read_regular(running.report, _LONGEST), running.report)
        except (OSError, ValueError, CpuwheelsError) as error:
            raise ServerError(f"the server's sandbox {how_ended(ended)} without a report") from error


@contextmanager
def serving(request: ServerRequest) -> Iterator[Server]:
    """Start a server and wait until it takes requests; no process of it is left afterwards.

    Raises:
        ServerError: It ended, or does not take requests in time.
        CommandError: It cannot be started.
    """
    port, began, family = _free_port(), time.monotonic(), Family(uuid.uuid4().hex)
    try:
        with _started(request, port, family.token) as running, _asked(request, port) as health:
            while True:
                healthy = health.poll() is not None
                family.members()  # while each has its parent
                # Asked last: another program may have got the port.
                if (status := running.process.poll()) is not None:
                    how = how_ended(running.confined.status(status))
                    raise ServerError(f"the server did not start: its process {how}")
                if healthy and health.returncode != 0:
                    raise ServerError(f"the server cannot be asked: what waits for it {how_ended(health.wait())}")
                if healthy:
                    break
                if time.monotonic() - began > request.patience:
                    raise ServerError(f"the server takes no requests after {request.patience:g} s")
                time.sleep(_PAUSE_SECONDS)
            yield Server(running, family, port, time.monotonic() - began, request.ending)
    finally:
        for left in family.members():
            with contextlib.suppress(psutil.NoSuchProcess):
                left.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _started(request: ServerRequest, port: int, token: str) -> Iterator[Running]:
    """Start a server; in a sandbox, something stays with it that counts what it leaves."""
    env, command = {**request.env, TOKEN: token}, request.command(port)
    watched = request.confine([request.python], env).by_bubblewrap
    report = Path(env.get("TMPDIR", "")) / f"{token}.json"
    if watched:
        command = [sys.executable, "-I", _WATCH, report, str(request.ending), *command]
    confined = request.confine(command, env)
    with background(confined.argv, log=request.log, env=confined.env, cwd=request.log.parent) as process:
        yield Running(process, confined, report, watched=watched)


def _asked(request: ServerRequest, port: int) -> AbstractContextManager[Child]:
    """Start what waits until a server takes requests: it may be that only its sandbox reaches it."""
    confined = request.confine([sys.executable, "-I", _WAIT, str(port)], closed_environment())
    return background(confined.argv, log=request.log.with_name("serve-health.log"), env=confined.env)


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
