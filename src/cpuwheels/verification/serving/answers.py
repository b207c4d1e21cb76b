"""What a server is asked, what it answers, and what is wrong with an answer."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict

Kind = Literal["completion", "chat"]


class Part(BaseModel):
    """A part of ``serve.json``."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class Question(Part):
    """What is asked, and the answer of transformers."""

    kind: Kind
    text: str
    prompt: tuple[int, ...]
    """In tokens."""
    answer: tuple[int, ...]
    """In tokens."""
    lead: float
    """The smallest lead of a chosen token over the next best one, in standard deviations of the scores."""
    least: float = 0.0
    """The lead that was required, by the data type and by the model's rounding errors."""


class Answer(Part):
    """The server's answer."""

    prompt: tuple[int, ...]
    """The tokens it made of the question."""
    answer: tuple[int, ...]
    """In tokens."""
    text: str | None


class Stream(Part):
    """What an answer that came in parts amounts to."""

    answer: tuple[int, ...]
    """In tokens."""
    text: str
    parts: int
    """Those with tokens."""
    first: float
    """Seconds until the first token."""
    usage: tuple[int, int] | None
    """Tokens of the prompt and of the answer, as the server counts them."""


class Exchange(Part):
    """A question and its answers."""

    question: Question
    answer: Answer
    """To the question alone."""
    stream: Stream | None = None
    together: tuple[Answer, ...] = ()
    """When others were asked as well at that moment."""

    @property
    def what(self) -> str:
        """The question, for people."""
        return f"{self.question.kind} of {len(self.question.prompt)} tokens"

    @property
    def problem(self) -> str:
        """The first thing that is wrong; empty if nothing is."""
        found = (
            self._wrong(self.answer, ""),
            self._wrong_stream(),
            *(self._wrong(one, "asked together with others, ") for one in self.together),
        )
        return next(filter(None, found), "")

    def _wrong(self, said: Answer, when: str) -> str:
        asked = self.question
        if asked.prompt != said.prompt:
            return f"{self.what}: {when}the server read other tokens than transformers"
        if asked.answer == said.answer:
            return ""
        pairs = zip(asked.answer, said.answer, strict=False)
        same = next((place for place, (wanted, got) in enumerate(pairs) if wanted != got), len(said.answer))
        return (
            f"{self.what}: {when}token {same + 1} of {len(asked.answer)} differs from transformers' "
            f"(its lead is {asked.lead:g} standard deviations or more)"
        )

    def _wrong_stream(self) -> str:
        said, whole = self.stream, self.answer
        if said is None:
            return ""
        if said.answer != whole.answer or said.text != (whole.text or ""):
            return f"{self.what}: the stream's parts are not the answer that is given at once"
        if said.usage != (len(whole.prompt), len(whole.answer)):
            return f"{self.what}: the stream's usage is {said.usage}, not {len(whole.prompt)} and {len(whole.answer)}"
        if said.parts == 1 and len(whole.answer) > 1:
            return f"{self.what}: the stream came in one part"
        return ""


class Embedding(Part):
    """A text whose vector was asked for."""

    text: str
    tokens: int
    """As transformers' tokenizer counts them."""
    counted: int
    """As the server counts them."""
    limit: float
    """How far the server's vector may be from the exact one: the length of the difference, where both have length 1."""
    error: float
    """How far it is; infinite if it has another size."""
    together: tuple[float, ...] = ()
    """How far it was when others were asked for as well."""

    @property
    def cosine(self) -> float:
        """The cosine of the angle between both vectors, if the server's has length 1: 1 - error² / 2."""
        return 1 - self.error**2 / 2

    @property
    def problem(self) -> str:
        """What is wrong; empty if nothing is."""
        what = f"embedding of {self.tokens} tokens"
        if self.tokens != self.counted:
            return f"{what}: the server read {self.counted} tokens"
        if self.error > self.limit:
            return f"{what}: its vector is off by {self.error:.2g}, and may be by {self.limit:.2g}"
        worst = max(self.together, default=0.0)
        if worst > self.limit:
            return f"{what}: asked together with others, its vector is off by {worst:.2g}, not {self.limit:.2g} at most"
        return ""


def distance(exact: list[float], said: list[float]) -> float:
    """Return the length of the difference of two vectors; infinite if they have different sizes or one is no number."""
    if len(exact) != len(said):
        return math.inf
    found = math.dist(exact, said)
    return math.inf if math.isnan(found) else found
