"""A sandbox to run hostile code in, and a world outside of it with things worth stealing."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from contexts import build_context
from cpuwheels.core.console import Reporter
from cpuwheels.core.environ import closed_environment
from cpuwheels.core.store import Store, default_root
from cpuwheels.sandbox.confine import Sandbox
from cpuwheels.sandbox.limits import Limits
from cpuwheels.sandbox.mechanism import Mechanism
from cpuwheels.sandbox.prepare import get_sandbox
from cpuwheels.sandbox.steps import Step
from cpuwheels.sandbox.view import View, follow, interpreter_places
from layout import HELPERS

SECRET = "AKIA-this-is-secret"
PYTHON = Path(follow(Path(sys.executable))[0])
HOSTILE = HELPERS / "hostile.py"

# A publisher that was started with credentials: it starts the step, as its parent.
_PUBLISHER = """\
import json, subprocess, sys
argv, env = json.loads(sys.argv[1])
sys.exit(subprocess.run(argv, env=env).returncode)
"""


@dataclass
class World:
    """What is outside: files, servers and a process.

    Attributes:
        base: Folder of everything.
    """

    base: Path
    _servers: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __enter__(self) -> Self:
        for name in ("home/.aws/credentials", "home/.ssh/id_ed25519", "home/.netrc", "store/entry", "clone/config"):
            path = self.base / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{SECRET}\n")
        self.port = self._serve(socket.AF_INET, ("127.0.0.1", 0))
        self.abstract = f"cpuwheels-test-{os.getpid()}-{id(self)}"
        self._serve(socket.AF_UNIX, f"\0{self.abstract}")
        self.docker = self.base / "d.sock"
        self._serve(socket.AF_UNIX, os.path.relpath(self.docker))
        self.victim = subprocess.Popen(["sleep", "1000"], env={"SECRET": SECRET})
        self._before = self.content()
        return self

    def __exit__(self, *_: object) -> None:
        self.victim.kill()
        self.victim.wait()
        self._servers.close()

    def content(self) -> dict[str, tuple[str, int]]:
        """Return text and permissions of each file of the user."""
        files = [path for name in ("home", "store", "clone") for path in (self.base / name).rglob("*")]
        return {str(path): (path.read_text() if path.is_file() else "", path.stat().st_mode) for path in sorted(files)}

    def unharmed(self) -> bool:
        """Return whether every file is as it was and the process lives."""
        return self.content() == self._before and self.victim.poll() is None

    def _serve(self, family: socket.AddressFamily, address: tuple[str, int] | str) -> int:
        server = self._servers.enter_context(socket.socket(family))
        # Closing alone leaves the address in use as long as a thread waits for a connection there.
        self._servers.callback(_refuse_connections, server)
        server.bind(address)
        server.listen()

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    server.accept()[0].close()

        threading.Thread(target=accept, daemon=True).start()
        return int(server.getsockname()[1]) if family == socket.AF_INET else 0


def _refuse_connections(server: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it listens to nothing yet
        server.shutdown(socket.SHUT_RDWR)


def pinned_bubblewrap(folder: Path) -> Path:
    """Return the pinned bubblewrap, as a build gets it, from the stores of the tests.

    Args:
        folder: For what a run writes.
    """
    context = build_context(folder, store=Store(default_root() / "tests"), reporter=Reporter("tests"))
    program = get_sandbox(context).mechanism.program
    assert program is not None, context.reporter.announcements
    return program


@dataclass(frozen=True)
class Ended:
    """How a confined command ended.

    Attributes:
        status: Its exit status.
        output: What it wrote.
    """

    status: int
    output: str


@dataclass(frozen=True)
class Confinement:
    """A step that has the tests' interpreter and the attacks, below a mechanism.

    Attributes:
        mechanism: Which.
        base: For the step's folder and the plans.
    """

    mechanism: Mechanism
    base: Path

    @property
    def work(self) -> Path:
        """The step's folder."""
        return self.base / "work"

    def step(self, *readable: Path, limits: Limits = Limits()) -> Step:  # noqa: B008  (a constant)
        """Return the step."""
        self.work.mkdir(exist_ok=True)
        return Step(
            "hostile code", View(self.work, (*interpreter_places(PYTHON), HOSTILE, *readable)), self.work, limits
        )

    def run(self, argv: Sequence[str | Path], *readable: Path, limits: Limits = Limits()) -> Ended:  # noqa: B008
        """Run a command confined, below a process with a secret in its environment."""
        env = closed_environment()
        confined = Sandbox(self.mechanism).confine(self.step(*readable, limits=limits), argv, env, self.base / "plans")
        told = json.dumps([[os.fspath(part) for part in confined.argv], confined.env])
        done = subprocess.run(
            [sys.executable, "-c", _PUBLISHER, told],
            env=os.environ | {"AWS_SECRET_ACCESS_KEY": SECRET},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        return Ended(done.returncode, done.stdout.strip())

    def attack(self, *arguments: str | Path, readable: Sequence[Path] = ()) -> str:
        """Run an attack of `hostile` and return what came of it."""
        return self.run([PYTHON, HOSTILE, *arguments], *readable).output


def without(argv: Sequence[str | Path]) -> str:
    """Run an attack unconfined: it has to succeed, or it shows nothing."""
    env = os.environ | {"AWS_SECRET_ACCESS_KEY": SECRET}
    done = subprocess.run([PYTHON, HOSTILE, *argv], env=env, capture_output=True, text=True, check=False)
    return done.stdout.strip()


@contextlib.contextmanager
def world(base: Path) -> Iterator[World]:
    """Make a world and take it down."""
    with World(base) as made:
        yield made
