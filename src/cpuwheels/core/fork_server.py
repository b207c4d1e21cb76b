"""The process that forks the supervisors of commands (`resources.supervisor`), so that a command costs a small fork."""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_SCRIPT = Path(__file__).with_name("resources") / "supervisor.py"
_PYTHON = sys.executable
_LOADER_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Variables without which some interpreters do not start."""


class StartError(OSError):
    """A command could not be started; ``errno`` and ``strerror`` say why."""


class ForkServer:
    """One for each process of this program, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def send(self, descriptors: Sequence[int]) -> None:
        """Have a supervisor forked for a command.

        Raises:
            StartError: The server cannot be started.
        """
        with self._lock:
            for _ in range(2):  # it may have been killed since the last command
                if self._control is None or self._owner != os.getpid():
                    self._start()
                assert self._control is not None  # noqa: S101  (it was just made)
                try:
                    socket.send_fds(self._control, [b"+"], list(descriptors))
                except (BrokenPipeError, ConnectionResetError):
                    self._close()
                else:
                    return
            raise StartError(None, f"{_PYTHON} does not run {_SCRIPT}")

    def end_strays(self, supervisor: int) -> None:
        """Have killed what a supervisor left that was killed itself.

        Args:
            supervisor: Its process id, which is waited for first; 0 if it was killed before it said so.
        """
        with self._lock, contextlib.suppress(OSError):
            if self._control is not None and self._owner == os.getpid():
                self._control.sendall(b"!" + supervisor.to_bytes(4, "big"))

    def close(self) -> None:
        """End it."""
        with self._lock:
            if self._owner == os.getpid():
                self._close()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [_PYTHON, "-I", "-S", str(_SCRIPT), str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={name: os.environ[name] for name in _LOADER_VARIABLES if name in os.environ},
                    cwd="/",
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                raise StartError(error.errno, error.strerror) from error
        self._control, self._owner = ours, os.getpid()

    def _close(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.wait()
            self._process = None


SERVER = ForkServer()
atexit.register(SERVER.close)
