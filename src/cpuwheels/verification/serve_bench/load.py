"""The load on a server: ``vllm bench serve`` of one environment, which asks both sides."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from cpuwheels.core.errors import CommandError, ServeError, reason
from cpuwheels.core.models import parse_as
from cpuwheels.core.process import run
from cpuwheels.sandbox.confine import unconfined
from cpuwheels.verification.serving.server import NAME

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.sandbox.confine import Confine

PROMPT_TOKENS, ANSWER_TOKENS = 128, 64
"""Of each request."""

_FEWEST = 4
_WAVES = 2


@dataclass(frozen=True)
class Load:
    """What loads a server.

    Attributes:
        python: Interpreter of an environment with vLLM.
        env: Its variables.
        work: Folder for its results.
        log: For its output.
        confine: Confines its processes, and the servers.
    """

    python: Path
    env: Mapping[str, str]
    work: Path
    log: Path
    confine: Confine = unconfined


@dataclass(frozen=True)
class Sample:
    """What one load found.

    Attributes:
        tokens_per_second: Of all answers, over the time from the first request to the last answer.
        first_token_seconds: Median time from a request to the first chunk of its answer.
    """

    tokens_per_second: float
    first_token_seconds: float


class _Result(BaseModel):
    """What ``vllm bench serve --save-detailed`` writes, as far as it is used."""

    model_config = ConfigDict(extra="ignore")
    completed: int
    output_throughput: float
    output_lens: list[int]
    ttfts: list[float]


def requests_of(at_once: int) -> int:
    """Return how many requests a load has: each place gets several, so that starting up and running dry count less."""
    return max(_FEWEST, _WAVES * at_once)


def measure(load: Load, url: str, tokenizer: Path, at_once: int) -> Sample:
    """Load a server: as many requests at once before the timing, which are discarded, then those that are timed.

    The prompts are drawn with the same seed each time, so both sides get the same ones.

    Args:
        load: What loads it.
        url: Of its OpenAI interface, with ``/v1``.
        tokenizer: Folder of the model.
        at_once: Requests that are under way at once.

    Raises:
        ServeError: The load cannot be run, or a request was not answered in full.
    """
    count = requests_of(at_once)
    result = load.work / "load.json"
    result.unlink(missing_ok=True)
    numbers = {
        "--random-input-len": PROMPT_TOKENS,
        "--random-output-len": ANSWER_TOKENS,
        "--num-prompts": count,
        "--max-concurrency": at_once,
        "--num-warmups": at_once,
        "--seed": at_once,
        "--temperature": 0,
    }
    command: list[str | Path] = [load.python, load.python.with_name("vllm"), "bench", "serve", "--backend", "openai"]
    command += ["--base-url", url.removesuffix("/v1"), "--model", NAME, "--tokenizer", tokenizer]
    command += ["--dataset-name", "random", "--ignore-eos", "--disable-tqdm", "--save-result", "--save-detailed"]
    command += ["--result-dir", result.parent, "--result-filename", result.name]
    command += [part for name, value in numbers.items() for part in (name, str(value))]
    try:
        confined = load.confine(command, load.env)
        run(confined.argv, log=load.log, env=confined.env)
        found = parse_as(_Result, result.read_bytes(), result)
    except CommandError as error:
        raise ServeError(
            f"vllm bench serve failed with {at_once} requests at once",
            where=url,
            log=load.log,
            output=error.output,
            next_step="read the log; that of the server is next to it",
        ) from error
    except (OSError, ValueError) as error:
        raise ServeError(
            f"vllm bench serve wrote no result that can be read: {reason(error)}",
            where=result,
            log=load.log,
            next_step="read the log; its options may be others in this version of vLLM",
        ) from error
    if found.completed != count or found.output_lens != [ANSWER_TOKENS] * count:
        raise ServeError(
            f"{found.completed} of {count} requests were answered, with {sum(found.output_lens)} tokens in place of "
            f"{ANSWER_TOKENS * count}",
            where=url,
            log=load.log,
            next_step="read the log; that of the server is next to it",
        )
    return Sample(found.output_throughput, median(found.ttfts))
