"""Serving the same models on two sides in turn, under the same load."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cpuwheels.core.errors import CommandError, ServeError
from cpuwheels.core.progress import Progress
from cpuwheels.verification.serve_bench.load import Load, Sample, measure
from cpuwheels.verification.serving.case import first_error
from cpuwheels.verification.serving.loaded import kernel_libraries, runtime_names
from cpuwheels.verification.serving.server import ServerError, ServerRequest, serving

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cpuwheels.config.serving_options import Speculation
    from cpuwheels.core.console import Reporter
    from cpuwheels.verification.serving.environment import ServingEnvironment
    from cpuwheels.wheel.kernel_wheel import KernelWheel

SPECULATIVE_TOKENS = 4
SERVER_MODULE = "vllm.entrypoints.openai.api_server"
"""The server without the command ``vllm``, which asks for the version of an installed package of that name."""

_LENGTH = 1024


@dataclass(frozen=True)
class BenchServerRequest(ServerRequest):
    """How a server that is timed is started.

    Attributes:
        module: Whether it is started as `SERVER_MODULE` in place of ``vllm serve``.
    """

    module: bool = False

    def command(self, port: int) -> list[str | Path]:
        """Return the command line."""
        python, vllm, serve, model, *options = super().command(port)
        program = [python, "-P", "-m", SERVER_MODULE, "--model", model] if self.module else [python, vllm, serve, model]
        return [*program, *options]


@dataclass(frozen=True)
class Side:
    """A wheel that is installed, and the setting in which it is served.

    Attributes:
        option: ``wheel`` or ``against``, as on the command line.
        wheel: The wheel.
        environment: With the wheel and everything it requires.
        env: Variables that the user gave for this side.
        preload: Libraries that the user preloads.
    """

    option: str
    wheel: KernelWheel
    environment: ServingEnvironment
    env: Mapping[str, str] = field(default_factory=dict)
    preload: tuple[Path, ...] = ()

    @property
    def has_command(self) -> bool:
        """Whether the command ``vllm`` finds the package that it belongs to; a wheel of another name is not found."""
        return any(self.environment.site.glob("vllm-*.dist-info"))

    @property
    def variables(self) -> dict[str, str]:
        """Its variables, with what is preloaded."""
        return {**self.env, **({"LD_PRELOAD": ":".join(map(str, self.preload))} if self.preload else {})}


@dataclass(frozen=True)
class BenchCase:
    """A model, and how it is served.

    Attributes:
        model: Its name.
        folder: Where it is.
        speculation: What proposes tokens.
        draft: Folder of the model that drafts; None if none does.
    """

    model: str
    folder: Path
    speculation: Speculation = "none"
    draft: Path | None = None

    @property
    def name(self) -> str:
        """For people and files."""
        return self.model if self.speculation == "none" else f"{self.model}-{self.speculation}"

    def arguments(self, at_once: int) -> tuple[str, ...]:
        """Return its arguments of ``vllm serve``, for so many requests at once.

        No prompt is answered from the cache of another one, so all that is timed is computed.
        """
        common = ("--max-model-len", str(_LENGTH), "--max-num-seqs", str(at_once), "--no-enable-prefix-caching")
        count = SPECULATIVE_TOKENS
        if self.speculation == "ngram":
            config = f'{{"method": "ngram", "num_speculative_tokens": {count}, "prompt_lookup_max": {count}}}'
        elif self.speculation == "draft":
            config = f'{{"method": "draft_model", "model": "{self.draft}", "num_speculative_tokens": {count}}}'
        else:
            return common
        return (*common, "--speculative-config", config)


@dataclass
class LoadSamples:
    """What was found for one case under one load.

    Attributes:
        case: The case.
        at_once: Requests under way at once.
        wheel: One sample for each round.
        against: The same of the other side.
    """

    case: BenchCase
    at_once: int
    wheel: list[Sample] = field(default_factory=list)
    against: list[Sample] = field(default_factory=list)

    @property
    def speeds(self) -> list[float]:
        """How many times as many tokens per second the wheel gave in each round."""
        pairs = zip(self.wheel, self.against, strict=True)
        return [own.tokens_per_second / other.tokens_per_second for own, other in pairs]

    @property
    def first_tokens(self) -> list[float]:
        """How many times as fast the wheel's first token came in each round."""
        pairs = zip(self.wheel, self.against, strict=True)
        return [other.first_token_seconds / own.first_token_seconds for own, other in pairs]


@dataclass(frozen=True)
class BenchSetting:
    """What all cases share.

    Attributes:
        load: What loads the servers.
        logs: Folder for the servers' logs.
        memory: ``--gpu-memory-utilization``.
        env: Variables of every server.
        dtype: Data type of the models.
        at_once: Loads, by requests under way at once.
        rounds: How often both sides are started and loaded.
        module: Whether servers are started as `SERVER_MODULE`.
    """

    load: Load
    logs: Path
    memory: float
    env: Mapping[str, str]
    dtype: str
    at_once: Sequence[int]
    rounds: int
    module: bool = False


@dataclass
class Comparison:
    """What was found.

    Attributes:
        samples: By case and load.
        loaded: Kernel libraries, OpenMP runtimes and allocators in the processes that compute, by side.
    """

    samples: list[LoadSamples] = field(default_factory=list)
    loaded: dict[str, set[str]] = field(default_factory=dict)


def order(number: int, sides: tuple[Side, Side]) -> tuple[Side, Side]:
    """Return which side comes first in a round: ABBA, so neither gains from a trend."""
    return sides if number % 2 == 0 else (sides[1], sides[0])


def compare_servers(
    setting: BenchSetting, sides: tuple[Side, Side], cases: Sequence[BenchCase], reporter: Reporter
) -> Comparison:
    """Serve each case on both sides in turn.

    Both servers are started anew in every round, as where one has its code, threads and memory makes it faster or
    slower for as long as it lives. Only one runs at a time.

    Raises:
        ServeError: A side cannot be served, or does not answer.
    """
    found, done = Comparison(), 0
    total = len(cases) * setting.rounds * len(sides)
    for case in cases:
        rows = [LoadSamples(case, at_once) for at_once in setting.at_once]
        for number in range(setting.rounds):
            for side in order(number, sides):
                reporter.progress(Progress(done, total, unit="starts", detail=f"{case.name}, {side.option}"))
                for row, sample in zip(rows, _serve(setting, side, case, found), strict=True):
                    (row.wheel if side is sides[0] else row.against).append(sample)
                done += 1
        found.samples += rows
    return found


def _serve(setting: BenchSetting, side: Side, case: BenchCase, found: Comparison) -> list[Sample]:
    """Start a server, load it, note what it has loaded, and end it."""
    log = setting.logs / f"serve-bench-{case.name}-{side.option}.log"
    request = BenchServerRequest(
        side.environment.python,
        case.folder,
        setting.dtype,
        setting.memory,
        {**setting.env, **side.variables},
        log,
        arguments=case.arguments(max(setting.at_once)),
        module=setting.module,
        confine=setting.load.confine,
    )
    try:
        with serving(request) as server:
            samples = [measure(setting.load, server.url, case.folder, each) for each in setting.at_once]
            processes = server.processes() or []
            server.end()
    except (ServerError, CommandError) as error:
        raise ServeError(
            f"{side.wheel.path.name} cannot be served: {error.what if isinstance(error, CommandError) else error}"
            f"{first_error(log)}",
            where=f"{case.name}, --{side.option}",
            log=log,
            next_step="read the server's log; what cannot be served cannot be timed",
        ) from error
    found.loaded.setdefault(side.option, set()).update(kernel_libraries(processes, ""), runtime_names(processes))
    return samples
