"""``serve-bench.json``: how fast two sides served the same models, and the table of it."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from rich.text import Text

from cpuwheels.core.tables import Column, Table
from cpuwheels.verification.benchmark.ratio import median_ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpuwheels.verification.benchmark.ratio import Ratio
    from cpuwheels.verification.serve_bench.compare import Comparison, LoadSamples, Side

FORMAT: Final = 1
SERVE_BENCH: Final = "serve-bench.json"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class BenchedSide(_Part):
    """One side."""

    wheel: str
    """File name."""
    sha256: str
    torch: str
    requirements: str
    """The lock that was installed, or how the requirements were resolved."""
    requirements_sha256: str
    env: dict[str, str]
    """Variables that the user gave for this side."""
    preload: tuple[str, ...]
    """File names of the libraries that the user preloaded."""
    loaded: tuple[str, ...]
    """Kernel libraries, OpenMP runtimes and allocators in the processes that compute."""

    @classmethod
    def of(cls, side: Side, loaded: set[str]) -> BenchedSide:
        """Return the record of a side."""
        return cls(
            wheel=side.wheel.path.name,
            sha256=side.wheel.sha256,
            torch=side.environment.torch,
            requirements=side.environment.lock,
            requirements_sha256=side.environment.lock_sha256,
            env=dict(side.env),
            preload=tuple(path.name for path in side.preload),
            loaded=tuple(sorted(loaded)),
        )

    @property
    def name(self) -> str:
        """For people: the wheel's version, and what is preloaded or set."""
        settings = [*self.preload, *(f"{name}={value}" for name, value in self.env.items())]
        return f"{self.wheel}{' with ' if settings else ''}{', '.join(settings)}"


class Compared(_Part):
    """One quantity on both sides."""

    ratio: float
    """Median, over the rounds, of how many times as fast the wheel was as the other side."""
    low: float
    """Lower end of the median's 95 % confidence interval."""
    high: float
    wheel: tuple[float, ...]
    """One value for each round."""
    against: tuple[float, ...]

    @classmethod
    def of(cls, ratio: Ratio, wheel: Sequence[float], against: Sequence[float]) -> Compared:
        """Return the record of a ratio and what it is made of."""
        rounded = [tuple(float(f"{value:.5g}") for value in values) for values in (wheel, against)]
        return cls(ratio=ratio.value, low=ratio.low, high=ratio.high, wheel=rounded[0], against=rounded[1])


class BenchedLoad(_Part):
    """One model under one load."""

    model: str
    speculation: str
    """``none``, ``ngram`` or ``draft``."""
    at_once: int
    """Requests under way at once."""
    tokens_per_second: Compared
    """Of all answers together."""
    first_token_seconds: Compared
    """Time from a request to the first chunk of its answer, median over the requests."""

    @classmethod
    def of(cls, samples: LoadSamples) -> BenchedLoad:
        """Return the record of the samples."""
        own, other = samples.wheel, samples.against
        return cls(
            model=samples.case.model,
            speculation=samples.case.speculation,
            at_once=samples.at_once,
            tokens_per_second=Compared.of(
                median_ratio(samples.speeds),
                [each.tokens_per_second for each in own],
                [each.tokens_per_second for each in other],
            ),
            first_token_seconds=Compared.of(
                median_ratio(samples.first_tokens),
                [each.first_token_seconds for each in own],
                [each.first_token_seconds for each in other],
            ),
        )

    @property
    def name(self) -> str:
        """For people."""
        return self.model if self.speculation == "none" else f"{self.model}, {self.speculation}"

    def slower(self, least: float) -> list[str]:
        """Return the quantities whose whole interval is below a ratio."""
        quantities = {"tokens/s": self.tokens_per_second, "first token": self.first_token_seconds}
        return [f"{self.name}, {self.at_once} at once, {name}" for name, one in quantities.items() if one.high < least]


class ServeBench(_Part):
    """Everything that one comparison found."""

    format: Literal[1] = FORMAT
    project: str
    """Version of the project that measured, with the commit of a checkout."""
    wheel: BenchedSide
    against: BenchedSide
    machine: str
    """Name of the CPU."""
    cpus: int
    """That may be used."""
    onednn_limit: str
    """ONEDNN_MAX_CPU_ISA, if the user has set it or this CPU needs it."""
    env: dict[str, str]
    """Variables that the user gave for both sides."""
    dtype: str
    prompt_tokens: int
    answer_tokens: int
    rounds: int
    sandbox: dict[str, str] = Field(default_factory=dict)
    """What confined servers and what asked them, and why it was not a better one, as in a build's record."""
    began: str
    """ISO 8601, UTC."""
    seconds: float
    loads: tuple[BenchedLoad, ...]

    def slower(self, least: float) -> list[str]:
        """Return what is slower than ``least`` times the other side, with its whole interval."""
        return [name for load in self.loads for name in load.slower(least)]

    def as_table(self, least: float) -> Table:
        """Return it as a table for the terminal; red where all of an interval is below ``least``.

        TTFT is the time to the first token, of which a ratio above 1 says that the wheel's comes sooner.
        """
        title = f"{self.wheel.name}: times as fast as {self.against.name}"
        numbers = [Column(name, right=True) for name in ("wheel", "other", "ratio", "95 %")]
        table = Table((Column("model"), Column(""), *numbers), title)
        for load in self.loads:
            speed, first = load.tokens_per_second, load.first_token_seconds
            table.add_row(load.name, "tokens/s", *_medians(speed, 1), *_ratio(speed, least))
            table.add_row(f"{load.at_once} at once", "TTFT, ms", *_medians(first, 1e3), *_ratio(first, least))
        return table


def bench_loads(found: Comparison) -> tuple[BenchedLoad, ...]:
    """Return the records of all cases and loads."""
    return tuple(BenchedLoad.of(samples) for samples in found.samples)


def _ratio(one: Compared, least: float) -> tuple[Text, str]:
    return Text(f"{one.ratio:.3f}", style="red" if one.high < least else ""), f"{one.low:.3f} to {one.high:.3f}"


def _medians(one: Compared, scale: float) -> tuple[str, str]:
    return f"{median(one.wheel) * scale:.1f}", f"{median(one.against) * scale:.1f}"
