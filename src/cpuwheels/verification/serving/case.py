"""One case of serving: a model in a data type on a library, asked by transformers and then by OpenAI's client."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from cpuwheels.core.errors import CommandError, ServeError
from cpuwheels.core.models import parse_as
from cpuwheels.verification.onednn_isa import VARIABLE
from cpuwheels.verification.serving.answers import Answer, Embedding, Exchange, Question, Stream, distance
from cpuwheels.verification.serving.figures import measure
from cpuwheels.verification.serving.loaded import fault, kernel_libraries, runtime_names
from cpuwheels.verification.serving.models import MADE, Model
from cpuwheels.verification.serving.result import Case, Figures
from cpuwheels.verification.serving.server import ENDING, NAME, PATIENCE, ServerError, ServerRequest, serving
from cpuwheels.verification.serving.setting import SCRIPTS_LOG, run_script

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.config.serving_options import ServeMode
    from cpuwheels.verification.serving.loaded import Process
    from cpuwheels.verification.serving.server import Server
    from cpuwheels.verification.serving.setting import Setting
    from cpuwheels.wheel.kernel_wheel import Preloads

_PATIENCE = {"eager": PATIENCE, "compile": 2 * PATIENCE}
"""Seconds for a server's start: half a minute on a quiet machine, several minutes on a busy one or with a compiler."""

_EMULATED = 8
"""How many times as long a server may take on an emulated machine."""

_TOGETHER = 16
"""Requests that the server computes at once, as resources/ask.py sends them."""

_ERROR = re.compile(r"^(?:\([^)]*\) )?(?:ERROR [^]]*\] )?([\w.]*(?:Error|Exception): \S.*)", re.MULTILINE)


@dataclass(frozen=True)
class Wanted:
    """What a case tests.

    Attributes:
        model: Its name.
        folder: Where it is.
        dtype: ``float32``, ``bfloat16`` or ``float16``.
        library: The library that vLLM is made to load; empty if vLLM chooses.
        chooser: A module of the wheel that is no library, but looks like one; empty if there is none.
        preloads: What vLLM has to preload.
        env: Variables that make vLLM load the library.
        mode: Whether torch.compile makes code of the model.
        absent: Operators that the model needs and the library does not have.
        python: Interpreter of the server, if not the environment's: on the emulated CPU that the library is for.
        cpu: That CPU, as QEMU names it.
    """

    model: str
    folder: Path
    dtype: str
    library: str
    chooser: str
    preloads: Preloads
    env: Mapping[str, str]
    mode: ServeMode = "eager"
    absent: tuple[str, ...] = ()
    python: Path | None = None
    cpu: str = ""

    @property
    def kind(self) -> Model:
        """What is known of the model."""
        return MADE.get(self.model, Model())

    @property
    def log(self) -> str:
        """Name of the server's log."""
        mode = self.mode if self.mode != "eager" else ""
        return f"serve-{'-'.join(filter(None, (self.model, self.dtype, self.library, mode)))}.log"

    def not_served(self, why: str = "", log: str = SCRIPTS_LOG) -> Case:
        """Return the case of a server that was not started: because something failed, or because it cannot serve it."""
        return Case(
            model=self.model,
            dtype=self.dtype,
            library="",
            wanted=self.library,
            mode=self.mode,
            cpu=self.cpu,
            absent=self.absent,
            started=None,
            seconds=0.0,
            onednn_limit=self.env.get(VARIABLE, ""),
            failure=why,
            log=log,
        )


@dataclass
class _Found:
    """What a case has found so far."""

    started: float | None = None
    exchanges: list[Exchange] = field(default_factory=list)
    embeddings: list[Embedding] = field(default_factory=list)
    figures: Figures | None = None
    processes: list[Process] | None = None
    sockets_left: int = 0


def serve_case(setting: Setting, wanted: Wanted, questions: Path) -> Case:
    """Start a server, ask it, look which libraries it has loaded, and end it."""
    log, slowness = setting.logs / wanted.log, _EMULATED if setting.emulated else 1
    request = ServerRequest(
        wanted.python or setting.environment.python,
        wanted.folder,
        wanted.dtype,
        setting.memory,
        {**setting.env, **wanted.kind.env, **wanted.env},
        log,
        slowness * _PATIENCE[wanted.mode],
        ending=slowness * ENDING,
        sequences=_TOGETHER,
        compiled=wanted.mode == "compile",
        arguments=wanted.kind.arguments,
        confine=setting.confine,
    )
    began, failure, found = time.monotonic(), "", _Found()
    try:
        with serving(request) as server:
            _inspect(setting, wanted, server, questions, found)
            found.sockets_left = server.end()
        if found.processes is not None:
            failure = fault(found.processes, wanted.library, wanted.chooser, wanted.preloads)
    except ServerError as error:
        failure = f"{error}{first_error(log)}"
    except CommandError as error:
        failure = f"{error.what}{first_error(log)}"
    except ServeError as error:
        failure = f"a request failed{first_error(log) or f': {error.output}'}"
    return Case(
        model=wanted.model,
        dtype=wanted.dtype,
        library="+".join(sorted(kernel_libraries(found.processes or (), wanted.chooser))),
        runtimes=runtime_names(found.processes or ()),
        wanted=wanted.library,
        mode=wanted.mode,
        cpu=wanted.cpu,
        compiler=setting.compiler if wanted.mode == "compile" else "",
        started=found.started,
        seconds=round(time.monotonic() - began, 1),
        exchanges=tuple(found.exchanges),
        embeddings=tuple(found.embeddings),
        figures=found.figures,
        sockets_left=found.sockets_left,
        onednn_limit=request.env.get(VARIABLE, ""),
        failure=failure,
        log=log.name,
    )


def _inspect(setting: Setting, wanted: Wanted, server: Server, questions: Path, found: _Found) -> None:
    """Ask a server everything, and measure it.

    Raises:
        ServeError: A request failed.
        ServerError: The server does not report tokens, or cannot be measured.
    """
    found.started = round(server.started, 1)
    answers = setting.work / f"{wanted.log.removesuffix('.log')}.json"
    run_script(setting, "ask.py", server.url, NAME, questions, answers)
    lists = (parse_as(list[dict[str, Any]], path.read_bytes(), path) for path in (questions, answers))
    pairs = zip(*lists, strict=True)
    try:
        for asked, said in pairs:
            if asked["kind"] == "embedding":
                found.embeddings.append(_embedding(asked, said))
            else:
                found.exchanges.append(_exchange(asked, said))
    except ValidationError as error:
        raise ServerError("the server's answers have no tokens (return_token_ids)") from error
    if setting.figures:
        log = setting.logs / f"bench-{wanted.log}"
        found.figures = measure(setting, server.url, wanted.folder, wanted.kind.task, log)
    found.processes = server.processes()


def _exchange(asked: dict[str, Any], said: dict[str, Any]) -> Exchange:
    return Exchange(
        question=Question.model_validate(asked),
        answer=Answer.model_validate(said["alone"]),
        stream=Stream.model_validate(said["stream"]),
        together=tuple(Answer.model_validate(one) for one in said["together"]),
    )


def _embedding(asked: dict[str, Any], said: dict[str, Any]) -> Embedding:
    exact = asked["vector"]
    return Embedding(
        text=asked["text"],
        tokens=asked["tokens"],
        counted=said["alone"]["tokens"],
        limit=asked["limit"],
        error=distance(exact, said["alone"]["vector"]),
        together=tuple(distance(exact, one["vector"]) for one in said["together"]),
    )


def first_error(log: Path) -> str:
    """Return the first error of a server's log, to be appended to a message; empty if it has none."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    found = _ERROR.search(text)
    return f": {found[1]}" if found else ""
