"""What decides whether a wheel is good: a command, an operator's results, or an operator's speed."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from cpuwheels.bisect.search import Verdict
from cpuwheels.core.concurrency import ended_after
from cpuwheels.core.errors import BisectError
from cpuwheels.core.process import run, signal_name
from cpuwheels.sandbox.confine import unconfined

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from cpuwheels.config.options import Regress
    from cpuwheels.core.console import Reporter
    from cpuwheels.sandbox.confine import Confine

SKIP = 125
"""Exit code of a command that cannot decide, as for ``git bisect run``."""

_LAST = 127

_HANGS: dict[Regress, Verdict] = {"error": Verdict.BAD, "success": Verdict.GOOD, "crash": Verdict.SKIP}
"""The verdict on a command that does not end in time."""


@dataclass(frozen=True)
class Judgement:
    """What was found about a wheel.

    Attributes:
        verdict: Good, bad or skip.
        reason: Why, for people.
    """

    verdict: Verdict
    reason: str


def nothing() -> None:
    """Do nothing."""


class Predicate(Protocol):
    """Something that decides whether a wheel is good."""

    def __call__(
        self, wheel: Path, commit: str, folder: Path, reporter: Reporter, waiting: Callable[[], None] = nothing
    ) -> Judgement:
        """Decide whether a wheel is good.

        Args:
            wheel: The file.
            commit: What it was made from.
            folder: For logs and an environment; kept but for the environment.
            reporter: Told of every step.
            waiting: Called while a command runs that other work at the same time does not disturb.
        """


@dataclass(frozen=True)
class Installed:
    """An environment with a wheel.

    Attributes:
        python: Its interpreter.
        variables: What programs need on this CPU.
        confine: Confines a command in it.
    """

    python: Path
    variables: Mapping[str, str]
    confine: Confine = unconfined

    def environ(self, inherited: Mapping[str, str], wheel: Path, commit: str) -> dict[str, str]:
        """Return the variables of a command in it.

        Args:
            inherited: What the command inherits; see `command_environment`.
            wheel: The wheel.
            commit: What it was made from.
        """
        return {
            **inherited,
            **self.variables,
            "CPUWHEELS_WHEEL": str(wheel),
            "CPUWHEELS_COMMIT": commit,
            "CPUWHEELS_PYTHON": str(self.python),
            "VIRTUAL_ENV": str(self.python.parent.parent),
            "PATH": os.pathsep.join([str(self.python.parent), inherited.get("PATH", os.defpath)]),
        }


@dataclass(frozen=True)
class CommandPredicate:
    """A shell command in an environment with the wheel.

    Attributes:
        command: For ``sh -c``.
        limit: Seconds after which it is ended, since it hangs; that is no success, and may have become a crash. None
            for no limit.
        install: Makes an environment with a wheel in a folder. It also gets a reporter.
        environ: What the command inherits; see `command_environment`.
        cwd: Its working folder.
        regress: Which change is looked for: that to an error, to a success or to a crash.
    """

    command: str
    limit: float | None
    install: Callable[[Path, Path, Reporter], Installed]
    environ: Mapping[str, str]
    cwd: Path
    regress: Regress = "error"

    def __call__(
        self, wheel: Path, commit: str, folder: Path, reporter: Reporter, waiting: Callable[[], None] = nothing
    ) -> Judgement:
        """Run the command.

        Raises:
            BisectError: Its exit status is no verdict.
            CpuwheelsError: The environment cannot be made.
        """
        with reporter.stage("environment", "with the wheel and what it requires"):
            installed = self.install(wheel, folder / "venv", reporter)
        env = installed.environ(self.environ, wheel, commit)
        log = folder / "command.log"
        waiting()
        with reporter.stage("command", f"log: {log}"), ended_after(self.limit) as late:
            confined = installed.confine(["sh", "-c", self.command], env)
            done = confined.ended(run(confined.argv, log=log, env=confined.env, cwd=self.cwd, check=False))
        if late.is_set():
            return Judgement(_HANGS[self.regress], f"no end within {self.limit:g} s")
        last = done.output.strip().splitlines()[-1:]
        verdict = verdict_of(done.returncode, self.command, self.regress)
        return Judgement(verdict, ": ".join([f"exit status {done.returncode}", *last]))


def verdict_of(status: int, where: str, regress: Regress = "error") -> Verdict:
    """Return the verdict of a shell command's exit status.

    0 is good, 125 is skip and any other up to 127 is bad, as git-bisect(1) has it. If a success is looked for, 0 is bad
    and anything else but 125 is good; if a crash is, the end by a signal is bad and the others are good.

    Args:
        status: Of the shell; negative for a signal.
        where: The command, for the message.
        regress: Which change is looked for.

    Raises:
        BisectError: Any other status: the search must not go on.
    """
    if status == SKIP:
        return Verdict.SKIP
    if regress == "success":
        return Verdict.GOOD if status else Verdict.BAD
    if status == 0:
        return Verdict.GOOD
    if 0 < status <= _LAST:
        return Verdict.GOOD if regress == "crash" else Verdict.BAD
    if regress == "crash" and (status < 0 or status - 128 in set(signal.Signals)):
        return Verdict.BAD
    number = -status if status < 0 else status - 128
    raise BisectError(
        f"the command ended with {status}, {signal_name(number)}, which is no verdict",
        where=where,
        next_step="if a crash is what you look for, add --regress crash; if it is one fault among others, let the "
        "command turn it into one: '… || exit 1'",
    )
