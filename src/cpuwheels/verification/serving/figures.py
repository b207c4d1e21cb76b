"""How fast a server is, as vLLM's own ``vllm bench serve`` measures it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cpuwheels.core.models import parse_as
from cpuwheels.core.process import run
from cpuwheels.verification.serving.result import Figures
from cpuwheels.verification.serving.server import NAME, ServerError

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.verification.serving.models import Task
    from cpuwheels.verification.serving.setting import Setting

REQUESTS = 32
TOGETHER = 8
PROMPT = 64
"""Tokens."""
ANSWER = 32
"""Tokens."""

_SOURCE = "vllm bench serve"
_ENDPOINTS: dict[Task, tuple[str, str]] = {
    "text": ("openai", "/v1/completions"),
    "embedding": ("openai-embeddings", "/v1/embeddings"),
}


def measure(setting: Setting, url: str, folder: Path, task: Task, log: Path) -> Figures:
    """Measure a server with random prompts.

    Args:
        setting: Of the run.
        url: Of its OpenAI interface.
        folder: Of the model, for its tokenizer.
        task: What the model makes of a text.
        log: Log file.

    Raises:
        ServerError: A request failed, or the program did.
    """
    backend, endpoint = _ENDPOINTS[task]
    output = setting.work / f"{log.stem}.json"
    options: dict[str, str | Path] = {
        "--backend": backend,
        "--base-url": url.removesuffix("/v1"),
        "--endpoint": endpoint,
        "--model": NAME,
        "--tokenizer": folder,
        "--dataset-name": "random",
        "--random-input-len": str(PROMPT),
        "--random-output-len": str(ANSWER),
        "--num-prompts": str(REQUESTS),
        "--max-concurrency": str(TOGETHER),
        "--num-warmups": "2",
        "--result-dir": output.parent,
        "--result-filename": output.name,
    }
    python = setting.environment.python
    command: list[str | Path] = [python, python.with_name("vllm"), "bench", "serve"]
    command += ["--disable-tqdm", "--ignore-eos", "--save-result"]
    command += [word for option in options.items() for word in option]
    confined = setting.confine(command, setting.env)
    done = run(confined.argv, log=log, env=confined.env, check=False)
    if done.returncode != 0 or not output.is_file():
        last = done.output.splitlines()[-1] if done.output else f"status {done.returncode}"
        raise ServerError(f"{_SOURCE} failed: {last}")
    return _figures(parse_as(dict[str, Any], output.read_bytes(), output), task)


def _figures(found: dict[str, Any], task: Task) -> Figures:
    """Return what the program's result has.

    Raises:
        ServerError: Not every request succeeded.
    """
    if found["completed"] != REQUESTS:
        raise ServerError(f"{_SOURCE}: {found['completed']} of {REQUESTS} requests succeeded")
    text = task == "text"
    return Figures(
        source=_SOURCE,
        requests=REQUESTS,
        together=TOGETHER,
        tokens_per_second=round(found["output_throughput" if text else "total_token_throughput"], 1),
        first_token_ms=round(found["median_ttft_ms"], 2) if text else None,
    )
