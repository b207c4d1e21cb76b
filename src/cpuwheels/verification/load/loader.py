"""The process that loads a wheel's extension modules: started early, so that its torch is there when it is needed.

Making an environment and importing torch in it takes seconds and does not need the wheel, so both happen while the
wheel is made. The process then waits for the modules, and loads each in a process of its own.
"""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from cpuwheels.core.capture import capture
from cpuwheels.core.collect import read_regular
from cpuwheels.core.concurrency import end_all
from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import InstallCheckError
from cpuwheels.core.filesystem import storage_errors
from cpuwheels.core.models import Strict, parse_as
from cpuwheels.core.process import TAIL_LINES, Completed, run
from cpuwheels.sandbox.confine import unconfined

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cpuwheels.sandbox.confine import Confine

PROBES = Path(__file__).parent / "resources"
_PROBE = PROBES / "operator_probe.py"
_MOST = 64 << 20
"""Bytes of an answer; vLLM's largest library leaves 40 kB."""


@dataclass(frozen=True)
class Module:
    """An extension module to be loaded.

    Attributes:
        kind: A torch library, or any other module.
        path: Where it is installed.
    """

    kind: Literal["library", "module"]
    path: Path


@dataclass(frozen=True)
class Loaded:
    """How loading a module went.

    Attributes:
        done: How its process ended, and its last output.
        torch: Version of the torch it was loaded into; empty if it was not.
        operators: Name and schema of each operator that it registered, by name.
    """

    done: Completed
    torch: str = ""
    operators: tuple[tuple[str, str], ...] = ()


class _Answer(Strict):
    """What the probe writes of a library that it has loaded."""

    torch: str
    operators: dict[str, str]


class Loader:
    """A fresh environment and the process in it that loads modules; a context that ends with both finished.

    Args:
        make: Makes the environment and returns its interpreter.
        work: For the answers; made when it is missing.
        log: Log file of the process.
        env: Variables that it needs on this CPU.
        confine: Confines a command of the environment's interpreter; it runs as it is if not given.
    """

    def __init__(
        self,
        make: Callable[[], Path],
        work: Path,
        log: Path,
        env: Mapping[str, str] | None = None,
        confine: Confine = unconfined,
    ) -> None:
        self._env = closed_environment(env)
        self._confine = confine
        self._work = work
        self._log = log
        self._read, self._write = os.pipe()
        self._threads = ThreadPoolExecutor(1, "loader")
        self._waiting: set[int] = set()
        self._make = make
        self._python: Future[Path] = Future()
        self._served: Future[tuple[Completed, list[str]]] = self._threads.submit(self._serve)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._end_of_input()
        if kind is not None:
            end_all([self._served], self._waiting)
        self._threads.shutdown()
        os.close(self._read)

    def python(self) -> Path:
        """Return the environment's interpreter, waiting for it.

        Raises:
            CpuwheelsError: The environment could not be made; its maker's own error.
        """
        return self._python.result()

    def ask(self, arguments: Sequence[str | Path]) -> Completed:
        """Return what the environment's interpreter answers, confined: what is installed may run when it starts."""
        confined = self._confine([self.python().absolute(), *arguments], self._env)
        return capture(confined.argv, env=confined.env)

    def load(self, modules: Sequence[Module]) -> dict[Path, Loaded]:
        """Load each module in a process of its own; called once.

        Raises:
            InstallCheckError: The process that forks for them failed, which is not their fault.
        """
        lines = [[module.kind, *map(str, (module.path, *self._files(module.path)))] for module in modules]
        with storage_errors(self._work):
            for _, _, answer, words in lines:
                Path(answer).unlink(missing_ok=True)
                Path(words).unlink(missing_ok=True)
            os.write(self._write, "".join(f"{json.dumps(line)}\n" for line in lines).encode())
        self._end_of_input()
        done, said = self._served.result()
        ends = dict(parse_as(tuple[str, int], line, self._log) for line in said if line.startswith("["))
        if done.returncode != 0 or len(ends) != len(lines):
            raise InstallCheckError(
                f"torch cannot be loaded: {done.output.splitlines()[-1] if done.output else 'no reason given'}",
                where=self.python(),
                log=self._log,
                output=done.output,
                next_step="remove the environments from the cache and build again",
            )
        return {module.path: self._loaded(module.path, ends[str(module.path)]) for module in modules}

    def _serve(self) -> tuple[Completed, list[str]]:
        said: list[str] = []
        self._waiting.add(threading.get_ident())
        try:
            # Not resolved: the environment is found by the place of the link to its interpreter.
            python = self._make().absolute()
        except BaseException as error:
            self._python.set_exception(error)
            raise
        self._python.set_result(python)
        with storage_errors(self._work):
            self._work.mkdir(parents=True, exist_ok=True)
        # -P: the probe's own folder holds this package's modules, which must not shadow the environment's.
        confined = self._confine([python, "-P", _PROBE], self._env)
        done = run(
            confined.argv,
            log=self._log,
            env=confined.env,
            cwd=self._work,
            stdin=self._read,
            on_line=said.append,
            check=False,
        )
        return done, said

    def _end_of_input(self) -> None:
        if self._write >= 0:
            os.close(self._write)
            self._write = -1

    def _files(self, path: Path) -> tuple[Path, Path]:
        return self._work / f"{path.name}.json", self._work / f"{path.name}.log"

    def _loaded(self, path: Path, returncode: int) -> Loaded:
        answer, words = self._files(path)
        text = (_left(words) or b"").decode(errors="replace")
        with storage_errors(self._log.parent), self._log.open("a", encoding="utf-8") as stream:
            stream.write(f"# {path}: status {returncode}\n{text}")
        done = Completed(returncode, "\n".join(text.splitlines()[-TAIL_LINES:]))
        left = _left(answer)
        if returncode != 0 or left is None:
            return Loaded(done)
        said = parse_as(_Answer, left, answer)
        return Loaded(done, said.torch, tuple(sorted(said.operators.items())))


def _left(path: Path) -> bytes | None:
    """Return what the process, in which the libraries' own code has run, left in a file; None if it left none.

    Raises:
        InstallCheckError: It is not a file of that size.
    """
    if not os.path.lexists(path):
        return None
    try:
        return read_regular(path, _MOST)
    except ValueError as error:
        raise InstallCheckError(
            f"loading the libraries left something that is not read: {error}",
            where=path,
            next_step="see what the library's own code does when it is loaded; do not use this wheel",
        ) from error
