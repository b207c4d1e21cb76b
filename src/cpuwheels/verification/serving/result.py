"""``serve.json``: what a server with the wheel answered, and what it should have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field
from rich.text import Text

from cpuwheels.config.serving_options import ServeMode  # noqa: TC001  (pydantic reads it)
from cpuwheels.core.errors import ServeError
from cpuwheels.core.tables import Column, Table
from cpuwheels.verification.serving.answers import Embedding, Exchange, Part

if TYPE_CHECKING:
    from pathlib import Path

FORMAT: Final = 1
SERVE: Final = "serve.json"

Verdict = Literal["right", "wrong", "failed", "absent"]

_MARKS = {"right": "green", "wrong": "red", "failed": "bold red", "absent": "yellow"}
_SHOWN = 12
"""Problems in the error's message; the report has all."""


class Figures(Part):
    """How fast a server was, for a model that is much smaller than any real one."""

    source: str
    """What measured it."""
    requests: int
    together: int
    """Requests at once."""
    tokens_per_second: float
    """Of the answers; of the prompts for embeddings."""
    first_token_ms: float | None
    """Milliseconds until the first token, the median; None for embeddings."""


class Case(Part):
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
    mode: ServeMode = "eager"
    cpu: str = ""
    """The emulated CPU that the server ran on, as QEMU names it; empty if it was this machine's."""
    compiler: str = ""
    """What compiled the code that torch.compile makes."""
    absent: tuple[str, ...] = ()
    """Operators that vLLM needs for this model, and the library does not have: it was not served."""
    exchanges: tuple[Exchange, ...] = ()
    embeddings: tuple[Embedding, ...] = ()
    figures: Figures | None = None
    runtimes: tuple[str, ...] = ()
    """OpenMP runtimes and allocators that the processes that compute have loaded, by their files' names."""
    sockets_left: int = 0
    """Names of sockets that it left in the file system when it ended; no process listens at them."""
    onednn_limit: str = ""
    """ONEDNN_MAX_CPU_ISA of its processes, if it was set."""
    failure: str = ""
    """What went wrong apart from answers: it did not start, died, loaded another library, or did not end on request."""
    log: str
    """Name of the server's log in the log folder."""

    @property
    def answers(self) -> tuple[Exchange | Embedding, ...]:
        """Everything that was answered."""
        return (*self.exchanges, *self.embeddings)

    @property
    def problems(self) -> list[str]:
        """Everything that is wrong."""
        return [problem for problem in (self.failure, *(one.problem for one in self.answers)) if problem]

    @property
    def verdict(self) -> Verdict:
        """Whether every answer is transformers', and the server started and ended well."""
        if self.absent:
            return "absent"
        if self.failure or not self.answers:
            return "failed"
        return "wrong" if self.problems else "right"

    def as_line(self) -> str:
        """Return how it went, for the terminal."""
        if self.absent:
            return f"{self.name}: not served, since this library has no {', '.join(self.absent)}"
        start = f"took requests after {self.started:.0f} s" if self.started is not None else "did not start"
        speed = f"; {self.figures.tokens_per_second:.0f} tokens/s" if self.figures else ""
        return f"{self.name}: {start}; {self.verdict}{speed}"

    @property
    def name(self) -> str:
        """For people."""
        mode = self.mode if self.mode != "eager" else ""
        return " ".join(filter(None, (self.model, self.dtype, self.library or self.wanted, mode)))


class Served(Part):
    """Everything that was found by serving a wheel."""

    format: Literal[1] = FORMAT
    wheel: str
    """File name."""
    sha256: str
    version: str
    torch: str
    python: str
    machine: str
    """Name of the CPU; of an emulated machine its kind."""
    emulated: bool = False
    """Whether the servers ran on an emulated machine; then each case names its CPU."""
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
    sandbox: dict[str, str] = Field(default_factory=dict)
    """What confined servers and what asked them, and why it was not a better one, as in a build's record."""
    began: str
    """ISO 8601, UTC."""
    seconds: float
    cases: tuple[Case, ...]

    @property
    def right(self) -> bool:
        """Whether every case is right whose library can serve its model, and there was one."""
        verdicts = {case.verdict for case in self.cases} - {"absent"}
        return verdicts == {"right"}

    def as_text(self) -> str:
        """Return the text of ``serve.json``."""
        return self.model_dump_json(indent=1) + "\n"

    def as_table(self) -> Table:
        """Return it as a table for the terminal."""
        names = ("model", "data type", "library", "mode", "start", "answers", "tokens/s", "verdict")
        columns = [Column(name, right=name in {"start", "tokens/s"}) for name in names]
        table = Table(columns, f"{self.wheel}: answers, compared with transformers'")
        for case in self.cases:
            style, words = _MARKS[case.verdict], "not in this library" if case.absent else case.verdict
            table.add_row(
                case.model,
                case.dtype,
                case.library or (f"{case.wanted}?" if case.wanted else "-"),
                case.mode,
                f"{case.started:.0f} s" if case.started is not None else "-",
                f"{sum(not one.problem for one in case.answers)} of {len(case.answers)}" if case.answers else "-",
                f"{case.figures.tokens_per_second:.0f}" if case.figures else "-",
                Text(words, style=style),
            )
        return table


def require_served(served: Served, report: Path, logs: Path) -> None:
    """Check that everything was right.

    Raises:
        ServeError: Something was not; it names the cases.
    """
    if served.right:
        return
    bad = [case for case in served.cases if case.verdict not in {"right", "absent"}]
    if not bad:
        raise ServeError(
            f"nothing was served from {served.wheel}: its libraries lack the operators of these models",
            where=report,
            log=logs,
            next_step="give other models, or other libraries",
        )
    lines = [f"{case.name}: {problem}" for case in bad for problem in case.problems]
    raise ServeError(
        f"{served.wheel} does not serve as it should: {', '.join(case.name for case in bad)}",
        where=report,
        log=logs / bad[0].log,
        output="\n".join(lines[:_SHOWN]),
        next_step="read the server's log; do not publish this wheel",
    )
