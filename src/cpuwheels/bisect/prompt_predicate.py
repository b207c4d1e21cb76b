"""The verdict on what a server answers to a text: a person's, or that of a comparison with the good end's answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from cpuwheels.bisect.predicates import Judgement, nothing
from cpuwheels.bisect.search import Verdict
from cpuwheels.core.errors import BisectError
from cpuwheels.core.filesystem import storage_errors, write_atomic
from cpuwheels.core.models import Strict
from cpuwheels.core.parse import LONGEST
from cpuwheels.core.plain_file import read_plain
from cpuwheels.core.text import printable
from cpuwheels.pipeline import serve_script
from cpuwheels.pipeline.user_places import UserPlaces
from cpuwheels.verification.serving.setting import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cpuwheels.bisect.person import Person
    from cpuwheels.config.matrix import Matrix
    from cpuwheels.config.options import Regress
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter

ANSWER = "answer.json"
"""File with the answer of a commit's server, in the folder of its probe."""

VARIABLE = "CPUWHEELS_PROMPT"
_SCRIPT = RESOURCES / "ask_prompt.py"
_SHOWN = 100
"""Characters of an answer in a reason."""


class PromptAnswer(Strict):
    """What a server answered."""

    prompt: str
    model: str
    text: str
    tokens: tuple[int, ...]

    def difference(self, other: PromptAnswer) -> str:
        """Return where the tokens of this answer begin to differ from another's; nothing if they are the same."""
        if self.tokens == other.tokens:
            return ""
        pairs = zip(self.tokens, other.tokens, strict=False)
        same = next((place for place, (one, two) in enumerate(pairs) if one != two), None)
        first = (min(len(self.tokens), len(other.tokens)) if same is None else same) + 1
        return f"token {first} of {len(self.tokens)}"


class _Printed(Strict):
    text: str
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class PromptPredicate:
    """A server that is asked to go on with a text.

    Attributes:
        prompt: The text.
        model: A model that is made on the spot, or a model's folder.
        good: Hash of the good end and its wheel.
        paths: Returns the folders for a commit's run.
        matrix: The configuration.
        target: Target id.
        regress: Which change is looked for; None if a person decides.
        person: They.
    """

    prompt: str
    model: str
    good: tuple[str, Callable[[Reporter], Path]]
    paths: Callable[[str], Paths]
    matrix: Matrix
    target: str
    regress: Regress | None = None
    person: Person | None = None

    def __call__(
        self, wheel: Path, commit: str, folder: Path, reporter: Reporter, waiting: Callable[[], None] = nothing
    ) -> Judgement:
        """Serve the model, ask, and compare or show the answer.

        Raises:
            StoppedError: The person does not want to go on.
            CpuwheelsError: Any stage's own error.
        """
        while True:
            if self.person is None:
                waiting()
            answer = self._answer(wheel, commit, folder, reporter)
            if self.person is None:
                return self._compared(answer, commit, reporter)
            self._show(answer, commit, reporter)
            waiting()
            if found := self.person.judge(commit):
                return found

    def _compared(self, answer: PromptAnswer | str, commit: str, reporter: Reporter) -> Judgement:
        if isinstance(answer, str):
            return Judgement(Verdict.SKIP if self.regress == "wrong-token" else Verdict.BAD, answer)
        said = f"it answers {_short(answer.text)}"
        if self.regress == "crash":
            return Judgement(Verdict.GOOD, said)
        good = self._good_answer(commit, answer, reporter)
        where = answer.difference(good)
        if not where:
            return Judgement(Verdict.GOOD, f"{said}, as the good end does")
        return Judgement(Verdict.BAD, f"{where} differs from the good end's: {_short(answer.text)}")

    def _show(self, answer: PromptAnswer | str, commit: str, reporter: Reporter) -> None:
        assert self.person is not None  # noqa: S101  (only then it is called)
        show = self.person.dialogue
        if isinstance(answer, str):
            show.show(f"{commit[:9]} does not answer: {answer}")
            return
        show.show(f"{commit[:9]} answers:")
        show.show_whole(answer.text)
        good = self._good_answer(commit, answer, reporter)
        if commit == self.good[0]:
            return
        if where := answer.difference(good):
            show.show(f"The good end answers otherwise from {where} on:")
            show.show_whole(good.text)
        else:
            show.show("The good end answers the same.")

    def _answer(self, wheel: Path, commit: str, folder: Path, reporter: Reporter) -> PromptAnswer | str:
        """Return what a wheel's server answers, and keep it; or why it does not."""
        places = UserPlaces(RESOURCES)
        request = serve_script.ScriptRequest(_SCRIPT, None, {VARIABLE: self.prompt}, places, self.model)
        found = serve_script.serve_script(self.paths(commit), self.matrix, self.target, wheel, request, reporter)
        if found.failure:
            return found.failure
        if found.status != 0:
            return f"the request failed: {found.last}"
        try:
            printed = _Printed.model_validate_json(found.last)
        except ValidationError:
            return f"the server's answer has no tokens: {printable(found.last)[:_SHOWN]}"
        answer = PromptAnswer(prompt=self.prompt, model=self.model, text=printed.text, tokens=printed.tokens)
        with storage_errors(folder):
            write_atomic(folder / ANSWER, answer.model_dump_json(indent=1) + "\n")
        return answer

    def _good_answer(self, commit: str, answer: PromptAnswer, reporter: Reporter) -> PromptAnswer:
        """Return what the good end answered, which is asked again if that is not known any more."""
        good, wheel = self.good
        if commit == good:
            return answer
        folder = self.paths(good).dist
        try:
            kept = PromptAnswer.model_validate_json(read_plain(folder / ANSWER, LONGEST))
            if (kept.prompt, kept.model) == (self.prompt, self.model):
                return kept
        except (OSError, ValidationError):
            pass
        again = self._answer(wheel(reporter), good, folder, reporter)
        if isinstance(again, str):
            raise BisectError(
                f"the good end's server does not answer any more: {again}",
                where=self.paths(good).dist,
                next_step="run the same command again, or give another good end",
            )
        return again


def _short(text: str) -> str:
    whole = printable(text.strip())
    return repr(whole if len(whole) <= _SHOWN else f"{whole[:_SHOWN]}…")
