"""The one door to child processes: each has a supervisor, which ends what is left of it (`resources.supervisor`)."""

from __future__ import annotations

import contextlib
import errno
import marshal
import os
import resource
import selectors
import socket
import subprocess
import threading
import time
from typing import TYPE_CHECKING

from cpuwheels.core.fork_server import SERVER, StartError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

GRACE_SECONDS = 10.0
"""Between SIGTERM and SIGKILL."""

REST_SECONDS = 1.0
"""In which what a command left in the background may end by itself."""

_LIMITS = tuple(getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_"))
_BLOCK = 1 << 20
_TICK_SECONDS = 3600.0


class LostError(OSError):
    """The supervisor of a command has ended before the command did."""


class Child:
    """A command under way. Like `subprocess.Popen`, as far as this program uses it.

    Attributes:
        args: The command.
        pid: Of the command itself, which leads its process group.
        supervisor: Process id of its supervisor.
        returncode: Its exit status, negative for a signal; None while it runs.
        started: Whether its program runs, or did.
        killed: Whether something of it had to be killed.
        cpu_seconds: CPU time of all its processes, once nothing of it is left.
        gone: Whether nothing of it is left.
    """

    def __init__(self, args: Sequence[str], channel: socket.socket) -> None:
        self.args = list(args)
        self.pid = self.supervisor = 0
        self.returncode: int | None = None
        self.started = self.killed = self.gone = False
        self.cpu_seconds = 0.0
        self._channel = channel
        self._rest = b""
        self._lock = threading.Lock()

    def fileno(self) -> int:
        """Return the descriptor that can be read when `receive` has something to do."""
        return self._channel.fileno()

    def receive(self, seconds: float | None = None) -> None:
        """Take in what the supervisor says.

        Args:
            seconds: How long to wait for it at most; None for no limit.

        Raises:
            StartError: The command cannot be started.
            LostError: The supervisor was killed.
        """
        with self._lock:
            if self.gone:
                return
            self._channel.settimeout(seconds)
            try:
                block = self._channel.recv(_BLOCK)
            except (TimeoutError, BlockingIOError):
                return
            except ConnectionResetError:
                block = b""
            self._channel.settimeout(None)
            *lines, self._rest = (self._rest + block).split(b"\n")
            for line in lines:
                self._take(line)
            if not block:
                self.gone = True
                if self.returncode is None:
                    self._abandon()

    def _take(self, line: bytes) -> None:
        word, *numbers = line.split()
        match word:
            case b"forked":
                self.pid, self.supervisor = (int(number) for number in numbers)
            case b"started":
                self.started = True
            case b"ended":
                self.returncode = int(numbers[0])
            case b"used":
                self.cpu_seconds = float(numbers[0])
            case b"killed":
                self.killed = True
            case b"failed":
                self.gone, self.returncode = True, 127
                raise StartError(int(numbers[0]), os.strerror(int(numbers[0])), self.args[0])

    def _abandon(self) -> None:
        """End what is left without a supervisor: the command is dead with it, what it has started may not be."""
        self.returncode = -9
        if self.pid:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, 9)
        SERVER.end_strays(self.supervisor)
        raise LostError(None, "the process that watches over it was killed")

    def poll(self) -> int | None:
        """Return the exit status, or None while the command runs."""
        if self.returncode is None:
            self.receive(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the command itself and return its exit status.

        Raises:
            subprocess.TimeoutExpired: It did not end in so many seconds.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.receive(left)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal to the command itself."""
        self._send(b"signal %d\n" % number)

    def end(self) -> None:
        """Ask for the end of the command and of all that it started, and return at once."""
        self._send(b"end\n")

    def close(self, *outputs: int) -> None:
        """End all of it, and wait until nothing is left.

        Args:
            outputs: Pipes that are read and thrown away meanwhile, and closed.
        """
        try:
            self.end()
            with contextlib.suppress(LostError):
                for _ in chunks(self, *outputs):
                    pass
        finally:
            for output in outputs:
                os.close(output)
            self._channel.close()

    def _send(self, line: bytes) -> None:
        with contextlib.suppress(OSError):  # it has ended
            self._channel.sendall(line)


def start(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    stdin: int,
    stdout: int,
    stderr: int,
    outputs: Sequence[int] = (),
    cwd: Path | None = None,
    umask: int = 0o022,
    stays: bool = False,
    grace: float = GRACE_SECONDS,
) -> Child:
    """Start a command in a session and process group of its own.

    Args:
        argv: The command; never passed to a shell.
        env: The whole environment.
        stdin: Descriptor that it reads.
        stdout: Descriptor that it writes.
        stderr: Descriptor that it writes its errors to.
        outputs: The ends of its pipes that this process reads.
        cwd: Working folder.
        umask: Of the command.
        stays: Whether what it started may go on after its own end, until `Child.end`.
        grace: Seconds between SIGTERM and SIGKILL.

    Raises:
        StartError: The program is not there or cannot be run.
    """
    if any("\0" in part for part in argv):
        raise StartError(errno.EINVAL, "a NUL in an argument")
    ours, theirs = socket.socketpair()
    child = Child(argv, ours)
    request = {
        "argv": [os.fsencode(part) for part in argv],
        "env": {os.fsencode(name): os.fsencode(value) for name, value in env.items()},
        "cwd": os.fsencode(cwd or _working_folder()),
        "umask": umask,
        "limits": [(kind, *resource.getrlimit(kind)) for kind in _LIMITS],
        "stays": stays,
        "rest": REST_SECONDS,
        "grace": grace,
    }
    body = marshal.dumps(request)
    try:
        with theirs:
            SERVER.send([theirs.fileno(), stdin, stdout, stderr, *outputs])
        try:
            ours.sendall(len(body).to_bytes(8, "big") + body)
            while not child.started:
                child.receive()
        except (BrokenPipeError, LostError) as error:
            raise StartError(None, "the process that watches over it was killed") from error
    except BaseException:
        ours.close()
        raise
    return child


def _working_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109  (nothing of this program has a say in what it is called)
    except OSError:
        return "/"  # it was removed


def chunks(
    child: Child, *sources: int, patience: Callable[[], float] = lambda: _TICK_SECONDS
) -> Iterator[tuple[int, bytes]]:
    """Yield what a command writes, with the descriptor that it came from, until nothing of the command is left.

    What the command left open elsewhere does not delay the end.

    Args:
        child: The command.
        sources: Descriptors of pipes.
        patience: Called before each wait; returns after how many seconds it is to be called again at the latest.
    """
    with selectors.DefaultSelector() as selector:
        for source in (*sources, child.fileno()):
            selector.register(source, selectors.EVENT_READ)
        while not child.gone:
            for key, _ in selector.select(max(0.0, patience())):
                source = key.fd
                if source == child.fileno():
                    child.receive(0)
                elif block := os.read(source, _BLOCK):
                    yield source, block
                else:
                    selector.unregister(source)
        for source in {key.fd for key in selector.get_map().values()} & set(sources):
            os.set_blocking(source, False)
            with contextlib.suppress(BlockingIOError):
                while block := os.read(source, _BLOCK):
                    yield source, block
