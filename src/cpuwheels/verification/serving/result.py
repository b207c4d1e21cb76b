"""``serve.json``: what a server with the wheel answered, and what it should have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from pydantic import BaseModel, ConfigDict
from rich.table import Table

from cpuwheels.core.errors import ServeError

if TYPE_CHECKING:
    from pathlib import Path

FORMAT: Final = 1
SERVE: Final = "serve.json"

Kind = Literal["completion", "chat"]
Verdict = Literal["right", "wrong", "failed"]

_MARKS = {"right": "green", "wrong": "red", "failed": "bold red"}
_SHOWN = 12
"""Problems in the error's message; the report has all."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Question(_Part):
    """What is asked, and the answer of transformers."""

    kind: Kind
    text: str
    prompt: tuple[int, ...]
    """In tokens."""
    answer: tuple[int, ...]
    """In tokens."""
    lead: float
    """The smallest lead of a chosen token over the next best one, in standard deviations of the scores."""


class Answer(_Part):
    """The server's answer."""

    prompt: tuple[int, ...]
    """The tokens it made of the question."""
    answer: tuple[int, ...]
    """In tokens."""
    text: str | None


class Exchange(_Part):
    """A question and its answer."""

    question: Question
    answer: Answer

    @property
    def problem(self) -> str:
        """What is wrong with the answer; empty if nothing is."""
        asked, said = self.question, self.answer
        what = f"{asked.kind} of {len(asked.prompt)} tokens"
        if asked.prompt != said.prompt:
            return f"{what}: the server read other tokens than transformers"
        if asked.answer == said.answer:
            return ""
        pairs = zip(asked.answer, said.answer, strict=False)
        same = next((place for place, (wanted, got) in enumerate(pairs) if wanted != got), len(said.answer))
        return (
            f"{what}: token {same + 1} of {len(asked.answer)} differs from transformers' "
            f"(its lead is {asked.lead:g} standard deviations or more)"
        )


class Case(_Part):
    """One start of the server."""

    model: str
    dtype: str
    library: str
    """The kernel library that its processes have loaded; empty if it did not get that far."""
    wanted: str
    """The library that was asked for; empty if vLLM chose."""
    started: float | None
    """Seconds until it took requests; None if it did not."""
    seconds: float
    exchanges: tuple[Exchange, ...] = ()
    runtimes: tuple[str, ...] = ()
    """OpenMP runtimes and allocators that the processes that compute have loaded, by their files' names."""
    onednn_limit: str = ""
    """ONEDNN_MAX_CPU_ISA of its processes, if it was set."""
    failure: str = ""
    """What went wrong apart from answers: it did not start, died, loaded another library, or did not end on request."""
    log: str
    """Name of the server's log in the log folder."""

    @property
    def problems(self) -> list[str]:
        """Everything that is wrong."""
        return [problem for problem in (self.failure, *(one.problem for one in self.exchanges)) if problem]

    @property
    def verdict(self) -> Verdict:
        """Whether every answer is transformers', and the server started and ended well."""
        if self.failure or not self.exchanges:
            return "failed"
        return "wrong" if self.problems else "right"

    def as_line(self) -> str:
        """Return how it went, for the terminal."""
        start = f"took requests after {self.started:.0f} s" if self.started is not None else "did not start"
        return f"{self.name}: {start}; {self.verdict}"

    @property
    def name(self) -> str:
        """For people."""
        return " ".join(filter(None, (self.model, self.dtype, self.library or self.wanted)))


class Served(_Part):
    """Everything that was found by serving a wheel."""

    format: Literal[1] = FORMAT
    wheel: str
    """File name."""
    sha256: str
    version: str
    torch: str
    python: str
    machine: str
    """Name of the CPU."""
    requirements: str
    """The lock that was installed, or how the requirements were resolved."""
    requirements_sha256: str
    lacks: tuple[str, ...]
    """What the wheel requires but was missing."""
    moved: tuple[str, ...]
    """What upstream requires by URL, and a plain installation of the wheel does not install."""
    onednn_limit: str = ""
    """ONEDNN_MAX_CPU_ISA, if the user has set it or this CPU needs it; a library that was asked for can lower it."""
    onednn_reason: str = ""
    """Why it was set."""
    memory_utilization: float
    """--gpu-memory-utilization: on a CPU the share of the machine's memory."""
    began: str
    """ISO 8601, UTC."""
    seconds: float
    cases: tuple[Case, ...]

    @property
    def right(self) -> bool:
        """Whether every case is right, and there was one."""
        return bool(self.cases) and all(case.verdict == "right" for case in self.cases)

    def as_table(self) -> Table:
        """Return it as a table for the terminal."""
        table = Table(title=f"{self.wheel}: greedy answers, compared with transformers'", title_justify="left")
        for heading in ("model", "data type", "library", "start", "answers", "verdict"):
            table.add_column(heading, justify="right" if heading == "start" else "left", overflow="fold")
        for case in self.cases:
            right = sum(not exchange.problem for exchange in case.exchanges)
            start = f"{case.started:.0f} s" if case.started is not None else "-"
            style = _MARKS[case.verdict]
            table.add_row(
                case.model,
                case.dtype,
                case.library or (f"{case.wanted}?" if case.wanted else "-"),
                start,
                f"{right} of {len(case.exchanges)}",
                f"[{style}]{case.verdict}[/{style}]",
            )
        return table


def require_served(served: Served, report: Path, logs: Path) -> None:
    """Check that everything was right.

    Raises:
        ServeError: Something was not; it names the cases.
    """
    if served.right:
        return
    bad = [case for case in served.cases if case.verdict != "right"]
    lines = [f"{case.name}: {problem}" for case in bad for problem in case.problems]
    raise ServeError(
        f"{served.wheel} does not serve as it should: {', '.join(case.name for case in bad)}",
        where=report,
        log=logs / bad[0].log,
        output="\n".join(lines[:_SHOWN]),
        next_step="read the server's log; do not publish this wheel",
    )
