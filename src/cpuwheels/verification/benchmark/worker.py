"""A process that has one wheel's library loaded and times the calls it is asked for."""

from __future__ import annotations

import json
import math
import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from cpuwheels.core.conversation import Conversation
from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import ParityError
from cpuwheels.core.models import parse_as
from cpuwheels.core.process import how_ended
from cpuwheels.sandbox.confine import unconfined
from cpuwheels.verification.parity.openmp import WAITING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.sandbox.confine import Confine

PATIENCE = 120.0
"""Seconds after which a process that does not answer is ended."""


class LeftOutError(Exception):
    """A case has no time on one side; the message says why."""


@dataclass(frozen=True)
class Begun:
    """A case that waits at the call to be timed.

    Attributes:
        place: Which of the case's calls of the operator it is.
        seconds: About how long the call takes.
    """

    place: int
    seconds: float


def pinned(threads: int) -> dict[str, str]:
    """Return the variables that bind each OpenMP thread to one CPU, the same one in every process that has them.

    torch for Linux brings GNU's OpenMP, which the kernel libraries use, too.
    """
    variables = {"OMP_NUM_THREADS": str(threads), "OMP_PROC_BIND": "true", **WAITING}
    if hasattr(os, "sched_getaffinity"):
        cpus = sorted(os.sched_getaffinity(0))[:threads]
        variables["OMP_PLACES"] = ",".join(f"{{{cpu}}}" for cpu in cpus)
    return variables


class Worker:
    """One side of a comparison. A process that dies is started again for the next case.

    It starts at once, and can answer when it is `ready`.

    Args:
        name: What to call it in messages.
        python: Interpreter of the environment that the wheel is installed in.
        script: ``time_cases.py``.
        library: The kernel library.
        threads: Threads of the operators.
        log: The file for its errors.
        env: Variables that it needs on this CPU.
        confine: Confines the process.
    """

    def __init__(
        self,
        name: str,
        python: Path,
        script: Path,
        library: Path,
        threads: int,
        log: Path,
        env: Mapping[str, str] | None = None,
        confine: Confine = unconfined,
    ) -> None:
        self.name, self._library, self._log = name, library, log
        variables = closed_environment({**pinned(threads), **(env or {})})
        self._confined = confine([python, script, library, str(threads)], variables)
        self._under_way = False
        self.operators: list[str] = []
        """Every operator that the library registers."""
        self.cases: dict[str, dict[str, Any]] = {}
        """Every case that the library can run, by name."""
        log.parent.mkdir(parents=True, exist_ok=True)
        self._start()

    def _start(self) -> None:
        with self._log.open("a", encoding="utf-8") as stream:
            self._process = Conversation(self._confined.argv, env=self._confined.env, stderr=stream.fileno())

    def ready(self) -> None:
        """Wait until the library is loaded.

        Raises:
            ParityError: It cannot be loaded.
        """
        try:
            about = self._answer()
        except LeftOutError as error:
            status = self._process.child.returncode
            raise ParityError(
                f"{self._library.name} of {self.name} could not be loaded: {self._cause(status)}",
                where=self._library,
                log=self._log,
                output=self._log.read_text(encoding="utf-8")[-2000:],
                next_step="run parity on this wheel first",
            ) from error
        self.operators = about["operators"]
        self.cases = {case["name"]: case for case in about["cases"]}

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._stop()

    def begin(self, case: str, operator: str, place: int | None) -> None:
        """Let it run a case up to a call of an operator; `begun` waits for that.

        Args:
            case: Its name.
            operator: Whose call.
            place: Which of the calls; the largest when None.

        Raises:
            ParityError: It had died and cannot be started again.
        """
        if self._process.child.poll() is not None:
            self._start()
            self.ready()
        self._put(do="begin", case=case, operator=operator, place=place)

    def begun(self) -> Begun:
        """Wait until the case is at the call.

        Raises:
            LeftOutError: The call cannot be timed.
        """
        answer = self._answer()
        if "place" not in answer:
            raise self._left_out(answer)
        self._under_way = True
        return Begun(answer["place"], self._seconds(answer))

    def sample(self, count: int) -> float:
        """Return the median seconds of so many calls.

        Raises:
            LeftOutError: A call failed, or the process died.
        """
        answer = self._ask(do="sample", count=count)
        if "seconds" not in answer:
            self._under_way = False
            raise self._left_out(answer)
        return self._seconds(answer)

    def end(self) -> None:
        """Let the case that was begun go on to its end; nothing if there is none.

        Raises:
            LeftOutError: It failed, or the process died.
        """
        if self._under_way and self._process.child.poll() is None:
            self._under_way = False
            self._ask(do="end")

    def _seconds(self, answer: dict[str, Any]) -> float:
        seconds = answer.get("seconds")
        if not (isinstance(seconds, int | float) and 0 < seconds < math.inf):
            raise LeftOutError(f"its process answers with no time ({self.name})")
        return float(seconds)

    def _left_out(self, answer: dict[str, Any]) -> LeftOutError:
        if "left_out" in answer:
            return LeftOutError(answer["left_out"])
        return LeftOutError(f"{answer.get('failed', 'its call cannot be repeated')} ({self.name})")

    def _put(self, **question: object) -> None:
        self._process.ask(json.dumps(question))

    def _ask(self, **question: object) -> dict[str, Any]:
        self._put(**question)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        try:
            line = self._process.answer(PATIENCE)
            cause = "" if line else self._cause(self._process.child.wait(PATIENCE))
        except (TimeoutError, subprocess.TimeoutExpired):
            line, cause = "", self._cause(None)
        except ValueError as error:
            line, cause = "", f"its process answers without end: {error}"
        if not line:
            self._under_way = False
            self._stop()
            raise LeftOutError(f"{cause} ({self.name})")
        return parse_as(dict[str, Any], line, self.name)

    def _stop(self) -> None:
        self._process.close()

    def _cause(self, status: int | None) -> str:
        if status is None:
            return f"its process did not answer within {PATIENCE:g} s"
        return f"its process {how_ended(self._confined.status(status))}"
