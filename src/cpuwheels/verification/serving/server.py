"""A real ``vllm serve`` on this machine's loopback address: started, waited for, inspected, and ended."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import psutil

from cpuwheels.core.process import background, how_ended
from cpuwheels.verification.serving.leftovers import held_files, left_files
from cpuwheels.verification.serving.loaded import Process

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cpuwheels.core.supervised import Child

NAME = "tiny"
"""What the model is called in requests."""

LENGTH = 512
"""Tokens of a prompt and its answer at most."""

_TOKEN = "CPUWHEELS_SERVER"  # noqa: S105  (a mark, no secret)
"""Variable by which the processes of one server are found, whoever their parent is now.

A process that gives itself a title, as vLLM's engine does, overwrites what it was started with, and this too. It is
found as a descendant of the others."""

PATIENCE = 600.0
"""Seconds for a server's start: half a minute on a quiet machine, several minutes on a busy one."""

ENDING = 60.0
"""Seconds for its end."""

_PAUSE_SECONDS = 0.25


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


class _Family:
    """The processes of one server, also those that have left its process group.

    Args:
        token: What marks them.
    """

    def __init__(self, token: str) -> None:
        self.token = token
        self._seen: set[psutil.Process] = set()

    def members(self) -> list[psutil.Process]:
        """Return those that run: the marked ones, their descendants, and what was among these before."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(_TOKEN) == self.token:
                    self._seen |= {process, *process.children(recursive=True)}
        self._seen = {each for each in self._seen if each.is_running()}
        return list(self._seen)


class Server:
    """A server that takes requests.

    Attributes:
        url: Of its OpenAI interface.
        started: Seconds that its start took.
    """

    def __init__(self, process: Child, family: _Family, port: int, started: float, ending: float) -> None:
        self._process, self._family, self._ending = process, family, ending
        self.url = f"http://127.0.0.1:{port}/v1"
        self.started = started

    def processes(self) -> list[Process] | None:
        """Return what its processes have loaded; None where the system does not show it."""
        if not Path("/proc/self/maps").is_file():
            return None
        first = self._process.pid
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
        held = held_files(self._family.members())
        self._process.send_signal(signal.SIGTERM)
        try:
            status = self._process.wait(self._ending)
        except subprocess.TimeoutExpired as error:
            raise ServerError(f"the server did not end within {self._ending:g} s of SIGTERM") from error
        _, left = psutil.wait_procs(self._family.members(), timeout=self._ending)
        if status != 0:
            raise ServerError(f"on SIGTERM, the server {how_ended(status)}")
        if left:
            raise ServerError(f"the server left {len(left)} processes behind")
        shared, sockets = left_files(held)
        if shared:
            raise ServerError(f"the server left shared memory behind: {', '.join(shared)}")
        return sockets


@contextmanager
def serving(request: ServerRequest) -> Iterator[Server]:
    """Start a server and wait until it takes requests; no process of it is left afterwards.

    Raises:
        ServerError: It ended, or does not take requests in time.
        CommandError: It cannot be started.
    """
    port, began, family = _free_port(), time.monotonic(), _Family(uuid.uuid4().hex)
    env = {**request.env, _TOKEN: family.token}
    try:
        with background(request.command(port), log=request.log, env=env, cwd=request.log.parent) as process:
            while True:
                healthy = _healthy(port)
                family.members()  # while each has its parent
                # Asked last: another program may have got the port.
                if process.poll() is not None:
                    raise ServerError(f"the server did not start: its process {how_ended(process.wait())}")
                if healthy:
                    break
                if time.monotonic() - began > request.patience:
                    raise ServerError(f"the server takes no requests after {request.patience:g} s")
                time.sleep(_PAUSE_SECONDS)
            yield Server(process, family, port, time.monotonic() - began, request.ending)
    finally:
        for left in family.members():
            with contextlib.suppress(psutil.NoSuchProcess):
                left.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _healthy(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", timeout=5, trust_env=False).is_success
    except httpx.HTTPError:
        return False


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
