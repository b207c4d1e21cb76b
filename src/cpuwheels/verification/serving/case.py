"""One case of serving: a model in a data type on a library, asked by transformers and then by OpenAI's client."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from cpuwheels.core.errors import CommandError, ServeError
from cpuwheels.core.process import run
from cpuwheels.verification.onednn_isa import VARIABLE
from cpuwheels.verification.serving.loaded import fault, kernel_libraries, runtime_names
from cpuwheels.verification.serving.result import Answer, Case, Exchange, Question
from cpuwheels.verification.serving.server import NAME, ServerError, ServerRequest, serving

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cpuwheels.verification.serving.environment import ServingEnvironment
    from cpuwheels.verification.serving.loaded import Process

MADE = ("opt", "qwen3")
"""The models that resources/tiny_models.py makes."""

LEAST_LEAD = {"float32": 0.001, "bfloat16": 0.05, "float16": 0.01}
"""Of questions that are asked, in standard deviations of the scores. In bfloat16 the scores of the small models are off
by 0.01 (root mean square, against float32), mostly the step of the format at their size, 2^-8 of 3."""

_CANDIDATES = 250
"""Texts of each length among which the clearest are taken; one of about twenty answers of 16 tokens is clear enough."""

_FEW_CANDIDATES = 8
"""For a model that is not small: it takes longer, and it is trained, so most of its answers are clear."""

_SMALL = 64 << 20
"""Bytes of weights."""

_QUESTIONS = 12
"""What a model that is made is asked: two of each kind and length (resources/reference.py)."""

_PATIENCE = 600.0
"""Seconds for a server's start: half a minute on a quiet machine, several minutes on a busy one."""

_SCRIPTS = "serve-scripts.log"
_ERROR = re.compile(r"^(?:\([^)]*\) )?(?:ERROR [^]]*\] )?([\w.]*(?:Error|Exception): \S.*)", re.MULTILINE)
_RESOURCES = Path(__file__).with_name("resources")


@dataclass(frozen=True)
class Setting:
    """What all cases of a run share.

    Attributes:
        environment: With the wheel and everything it requires.
        work: Folder for models, questions and answers.
        logs: Folder for the logs.
        memory: ``--gpu-memory-utilization``.
        env: Variables of every process.
    """

    environment: ServingEnvironment
    work: Path
    logs: Path
    memory: float
    env: Mapping[str, str]


@dataclass(frozen=True)
class Wanted:
    """What a case tests.

    Attributes:
        model: Its name.
        folder: Where it is.
        dtype: ``float32``, ``bfloat16`` or ``float16``.
        library: The library that vLLM is made to load; empty if vLLM chooses.
        chooser: A module of the wheel that is no library, but looks like one; empty if there is none.
        allocator: Whether the wheel holds an allocator, which vLLM has to preload.
        env: Variables that make vLLM load the library.
    """

    model: str
    folder: Path
    dtype: str
    library: str
    chooser: str
    allocator: bool
    env: Mapping[str, str]

    def failed(self, why: str, log: str = _SCRIPTS) -> Case:
        """Return the case of a server that was never asked."""
        return Case(
            model=self.model,
            dtype=self.dtype,
            library="",
            wanted=self.library,
            started=None,
            seconds=0.0,
            onednn_limit=self.env.get(VARIABLE, ""),
            failure=why,
            log=log,
        )


def make_models(setting: Setting, names: list[str]) -> dict[str, Path]:
    """Make the models that are made on the spot, and return their folders by name.

    Raises:
        ServeError: They cannot be made.
    """
    folder = setting.work / "models"
    if names:
        _script(setting, "tiny_models.py", folder, *names)
    return {name: folder / name for name in names}


def questions_for(setting: Setting, model: str, folder: Path, dtype: str) -> Path:
    """Ask transformers, and return the file with the questions whose answers are clear.

    Raises:
        ServeError: transformers cannot run the model, or too few of its answers are clear.
    """
    output = setting.work / f"{model}-{dtype}-questions.json"
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    candidates = _CANDIDATES if 0 < size <= _SMALL else _FEW_CANDIDATES
    _script(setting, "reference.py", folder, dtype, str(candidates), str(LEAST_LEAD[dtype]), output)
    count = len(json.loads(output.read_text(encoding="utf-8")))
    if model in MADE and count != _QUESTIONS:
        raise ServeError(f"only {count} of {_QUESTIONS} questions have a clear answer", where=output)
    return output


def serve_case(setting: Setting, wanted: Wanted, questions: Path) -> Case:
    """Start a server, ask it, look which libraries it has loaded, and end it."""
    log = setting.logs / f"serve-{'-'.join(filter(None, (wanted.model, wanted.dtype, wanted.library)))}.log"
    request = ServerRequest(
        setting.environment.python,
        wanted.folder,
        wanted.dtype,
        setting.memory,
        {**setting.env, **wanted.env},
        log,
        _PATIENCE,
    )
    began, started, failure = time.monotonic(), None, ""
    processes: list[Process] | None = None
    exchanges: list[Exchange] = []
    try:
        with serving(request) as server:
            started = round(server.started, 1)
            exchanges = _ask(setting, server.url, questions, setting.work / f"{log.stem}.json")
            processes = server.processes()
            server.end()
        if processes is not None:
            failure = fault(processes, wanted.library, wanted.chooser, allocator=wanted.allocator)
    except ServerError as error:
        failure = f"{error}{first_error(log)}"
    except CommandError as error:
        failure = f"{error.what}{first_error(log)}"
    except ServeError as error:
        failure = f"a request failed{first_error(log) or f': {error.output}'}"
    return Case(
        model=wanted.model,
        dtype=wanted.dtype,
        library="+".join(sorted(kernel_libraries(processes or (), wanted.chooser))),
        runtimes=runtime_names(processes or ()),
        wanted=wanted.library,
        started=started,
        seconds=round(time.monotonic() - began, 1),
        exchanges=tuple(exchanges),
        onednn_limit=request.env.get(VARIABLE, ""),
        failure=failure,
        log=log.name,
    )


def _ask(setting: Setting, url: str, questions: Path, answers: Path) -> list[Exchange]:
    """Ask a server everything.

    Raises:
        ServeError: A request failed.
        ServerError: The server does not report tokens.
    """
    _script(setting, "ask.py", url, NAME, questions, answers)
    asked, said = (json.loads(path.read_text(encoding="utf-8")) for path in (questions, answers))
    try:
        return [
            Exchange(question=Question.model_validate(question), answer=Answer.model_validate(answer))
            for question, answer in zip(asked, said, strict=True)
        ]
    except ValidationError as error:
        raise ServerError("the server's answers have no tokens (return_token_ids)") from error


def first_error(log: Path) -> str:
    """Return the first error of a server's log, to be appended to a message; empty if it has none."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    found = _ERROR.search(text)
    return f": {found[1]}" if found else ""


def _script(setting: Setting, script: str, *arguments: str | Path) -> None:
    log = setting.logs / _SCRIPTS
    done = run(
        [setting.environment.python, "-P", _RESOURCES / script, *arguments], log=log, env=setting.env, check=False
    )
    if done.returncode != 0:
        last = done.output.splitlines()[-1] if done.output else f"status {done.returncode}"
        raise ServeError(f"{script} failed: {last}", where=_RESOURCES / script, log=log, output=last)
