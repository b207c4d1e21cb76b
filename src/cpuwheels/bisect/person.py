"""The verdict of a person, who has an environment with the wheel ready for use."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.bisect.command_sandbox import TEMPORARY
from cpuwheels.bisect.dialogue import RETRY
from cpuwheels.bisect.environment_script import write_script
from cpuwheels.bisect.predicates import Judgement, nothing
from cpuwheels.bisect.regress import MEANINGS
from cpuwheels.bisect.search import Verdict
from cpuwheels.core.filesystem import remove_tree, storage_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from cpuwheels.bisect.dialogue import Dialogue
    from cpuwheels.bisect.predicates import Installed
    from cpuwheels.config.options import Regress
    from cpuwheels.core.console import Reporter

_VERDICTS = tuple(str(verdict) for verdict in Verdict)
_UNSAID = "a person's verdict"


@dataclass(frozen=True)
class Person:
    """Somebody who gives verdicts.

    Attributes:
        dialogue: With them.
        ends: What each end was said to be.
        regress: Which change they look for, if they said so.
    """

    dialogue: Dialogue
    ends: Mapping[str, Verdict]
    regress: Regress | None = None

    def judge(self, commit: str) -> Judgement | None:
        """Ask for the verdict on a commit; None if it is to be tested once more.

        A verdict on an end that is not what was said of it would end the search, so it is asked for twice.

        Raises:
            StoppedError: They do not want to go on.
        """
        about, said = f"Verdict on {commit[:9]}", self.ends.get(commit)
        if self.regress:
            about = f"{about} (bad: {MEANINGS[self.regress]})"
        answer = self.dialogue.ask(about, (*_VERDICTS, RETRY))
        if said and answer.word not in {said, RETRY}:
            self.dialogue.show(
                f"{commit[:9]} was given with --{said}. If it is not {said}, the search cannot go on: answer "
                f"{answer.word} once more to stop, or correct yourself."
            )
            answer = self.dialogue.ask(about, (*_VERDICTS, RETRY))
        return None if answer.word == RETRY else Judgement(Verdict(answer.word), answer.note or _UNSAID)

    def judge_without_wheel(self, commit: str, why: str, log: Path) -> Judgement | None:
        """Ask what to do about a commit that has no wheel; None if it is to be tried once more.

        Args:
            commit: Full hash.
            why: Why there is none.
            log: Where all of it is.

        Raises:
            StoppedError: They do not want to go on.
        """
        self.dialogue.show(f"{commit[:9]} has no wheel: {why}. The log:")
        self.dialogue.show_whole(str(log))
        answer = self.dialogue.ask("What now", (Verdict.SKIP, RETRY))
        return None if answer.word == RETRY else Judgement(Verdict.SKIP, f"no wheel: {why}")


@dataclass(frozen=True)
class PersonPredicate:
    """A person with an environment that has the wheel.

    Attributes:
        person: The person.
        install: Makes an environment with a wheel in a folder. It also gets a reporter.
        environ: What commands inherit; see `command_environment`.
        named: Names of the variables among them that the user hands out.
        cwd: The working folder of commands.
    """

    person: Person
    install: Callable[[Path, Path, Reporter], Installed]
    environ: Mapping[str, str]
    named: Sequence[str]
    cwd: Path

    def __call__(
        self, wheel: Path, commit: str, folder: Path, reporter: Reporter, waiting: Callable[[], None] = nothing
    ) -> Judgement:
        """Print how the environment is used, and ask.

        Raises:
            StoppedError: The person does not want to go on.
            CpuwheelsError: The environment cannot be made.
        """
        while True:
            with reporter.stage("environment", "with the wheel and what it requires"):
                installed = self.install(wheel, folder / "venv", reporter)
            env = installed.environ(self.environ, wheel, commit)
            script = write_script(folder, installed, env, self.named, self.cwd)
            try:
                waiting()
                end = f", the {said} end," if (said := self.person.ends.get(commit)) else ""
                self.person.dialogue.show(f"The environment of {commit[:9]}{end} is ready. Use it in another terminal:")
                self.person.dialogue.show_whole(f"{shlex.quote(str(script))} python")
                found = self.person.judge(commit)
            finally:
                with storage_errors(folder):
                    script.unlink(missing_ok=True)
            if found:
                return found
            with storage_errors(folder):
                remove_tree(folder / TEMPORARY)
