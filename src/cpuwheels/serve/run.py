"""One run of serving: models are made, transformers is asked, and then the server."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels import run as runs
from cpuwheels.benches import hold_onednn_back, this_cpu
from cpuwheels.errors import CommandError, ServeError, UsageError
from cpuwheels.memory import available_memory
from cpuwheels.options import BuildOptions
from cpuwheels.parity.wheel import read_wheel
from cpuwheels.platforms import check_own_machine, markers
from cpuwheels.process import closed_environment, run
from cpuwheels.serve.environment import serving_environment
from cpuwheels.serve.lesser_cpu import lesser_cpu
from cpuwheels.serve.result import Answer, Case, Exchange, Question, Served
from cpuwheels.serve.server import NAME, ServerError, ServerRequest, serving

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cpuwheels.config import Places
    from cpuwheels.console import Reporter
    from cpuwheels.model.matrix import Matrix, Target
    from cpuwheels.native import CpuFeatures
    from cpuwheels.onednn_isa import OnednnLimit
    from cpuwheels.options import ServeOptions
    from cpuwheels.parity.wheel import KernelWheel
    from cpuwheels.serve.environment import ServingEnvironment

MADE = ("opt", "qwen3")
"""The models that resources/tiny_models.py makes."""

LEAST_LEAD = {"float32": 0.001, "bfloat16": 0.05, "float16": 0.01}
"""Of questions that are asked, in standard deviations of the scores. In bfloat16 the scores of the small models are off
by 0.01 (root mean square, against float32), mostly the step of the format at their size, 2^-8 of 3."""

_CANDIDATES = 250
"""Texts of each length among which the clearest are taken; one of about twenty answers of 16 tokens is clear enough."""

_CANDIDATES_OF_OTHERS = 8
"""Of a model that the user gives: larger, and trained, so that its answers are clear."""

_PATIENCE = 600.0
"""Seconds for a server's start: half a minute on a quiet machine, several on a busy one."""

_MEMORY = 3 << 30
"""Bytes that the server may take: its code and the cache of the keys and values."""

_ERROR = re.compile(r"^(?:\([^)]*\) )?(?:ERROR [^]]*\] )?([\w.]*(?:Error|Exception): \S.*)", re.MULTILINE)

_RESOURCES = Path(__file__).with_name("resources")
_OFFLINE = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "TOKENIZERS_PARALLELISM": "false"}


@dataclass(frozen=True)
class _Setting:
    """What all cases of a run share."""

    environment: ServingEnvironment
    work: Path
    logs: Path
    memory: float
    env: Mapping[str, str]


def serve_wheel(
    places: Places, matrix: Matrix, name: str, wheel: Path, options: ServeOptions, reporter: Reporter
) -> tuple[Served, Path]:
    """Serve small models from a wheel and compare the answers with transformers'.

    Args:
        places: Folders to read and write.
        matrix: The configuration.
        name: Target id.
        wheel: A wheel of that target.
        options: What the user chose.
        reporter: Told of every step.

    Returns:
        What was found, wrong answers and failed starts among it; and the folder of the logs.

    Raises:
        CpuwheelsError: Any stage's own error.
    """
    target = matrix.buildable(name)
    check_own_machine(target)
    found = read_wheel(wheel, target, markers(target, matrix.python[0]))
    this = runs.start(places, matrix, target, BuildOptions(), reporter)
    cpu = this_cpu(this)
    limit = hold_onednn_back(reporter, cpu)
    _check_libraries(options.libraries, target, found, cpu)
    began, started = datetime.now(UTC), time.monotonic()
    with this.store.scratch("wheel") as work:
        with reporter.stage("environment", f"{wheel.name}, torch {found.torch} and everything else it requires"):
            environment = serving_environment(this, found, work, locked=options.locked, relock=options.relock)
        setting = _Setting(environment, work, this.logs, memory_share(), _environment(work, limit))
        with reporter.stage("serve", "small models, greedy answers, compared with transformers'"):
            cases = _cases(setting, options, target, cpu, reporter)
    return Served(
        wheel=wheel.name, sha256=found.sha256, version=found.version, torch=environment.torch,
        python=environment.version, machine=cpu.model, requirements=environment.lock,
        requirements_sha256=environment.lock_sha256, lacks=environment.lacks, moved=environment.moved,
        memory_utilization=round(setting.memory, 3), onednn_limit=limit.isa if limit else "",
        onednn_reason=limit.reason if limit else "",
        began=began.isoformat(timespec="seconds"), seconds=round(time.monotonic() - started, 1), cases=tuple(cases),
    ), this.logs  # fmt: skip


def memory_share() -> float:
    """Return ``--gpu-memory-utilization``: the share of one memory node's RAM that the server may take.

    vLLM takes it of the node that its threads run on, and refuses to start if less is free.
    """
    limit = available_memory()
    return min(0.9, min(_MEMORY, 0.8 * limit.available) * memory_nodes() / limit.bytes)


def memory_nodes() -> int:
    """Return how many memory nodes this machine has; where Linux says nothing of it, one."""
    return len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or 1


def _check_libraries(wanted: Sequence[str], target: Target, wheel: KernelWheel, cpu: CpuFeatures) -> None:
    needs = {library.name: library.needs for library in target.libraries}
    for library in wanted:
        if library not in needs or library not in wheel.libraries:
            raise UsageError(
                f"{wheel.path.name} has no library {library}",
                where="--library",
                next_step=f"it has: {', '.join(wheel.libraries)}",
            )
        if lacking := sorted(set(needs[library]) - cpu.features):
            raise UsageError(
                f"this CPU cannot run {library}: it lacks {', '.join(lacking)}",
                where="--library",
                next_step="leave it out, or use a machine with such a CPU",
            )


def _environment(work: Path, limit: OnednnLimit | None) -> dict[str, str]:
    home = work / "home"
    home.mkdir(parents=True, exist_ok=True)
    needed = limit.environment() if limit else {}
    return closed_environment({**_OFFLINE, **needed, "HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")})


def _cases(
    setting: _Setting, options: ServeOptions, target: Target, cpu: CpuFeatures, reporter: Reporter
) -> list[Case]:
    models = _models(setting, options.models)
    cases = []
    for name, folder in models.items():
        for dtype in options.dtypes:
            questions = _questions(setting, name, folder, dtype)
            for library in options.libraries or ("",):
                lesser = lesser_cpu(target, library, cpu.features) if library else {}
                case = _serve(setting, name, folder, dtype, library, questions, lesser)
                cases.append(case)
                start = f"took requests after {case.started:.0f} s" if case.started is not None else "did not start"
                reporter.info(f"{case.name}: {start}; {case.verdict}")
                for problem in case.problems:
                    reporter.info(f"{case.name}: {problem}")
    return cases


def _models(setting: _Setting, wanted: Sequence[str]) -> dict[str, Path]:
    """Return the folders of the models by name, making those that are made on the spot."""
    made = [name for name in wanted if name in MADE]
    folder = setting.work / "models"
    if made:
        _script(setting, "tiny_models.py", folder, *made)
    return {name: folder / name for name in made} | {
        Path(name).name: Path(name).resolve() for name in wanted if name not in MADE
    }


def _questions(setting: _Setting, name: str, folder: Path, dtype: str) -> Path:
    """Return the file with the questions of a model."""
    output = setting.work / f"{name}-{dtype}-questions.json"
    candidates = _CANDIDATES if name in MADE else _CANDIDATES_OF_OTHERS
    _script(setting, "reference.py", folder, dtype, str(candidates), str(LEAST_LEAD[dtype]), output)
    if not json.loads(output.read_text(encoding="utf-8")):
        raise ServeError(
            f"no answer of {name} in {dtype} is clear: rounding would decide which token comes next",
            where=folder,
            next_step="use a trained model, or another data type",
        )
    return output


def _serve(
    setting: _Setting, name: str, folder: Path, dtype: str, library: str, questions: Path, lesser: Mapping[str, str]
) -> Case:
    log = setting.logs / f"serve-{'-'.join(filter(None, (name, dtype, library)))}.log"
    request = ServerRequest(
        setting.environment.python, folder, dtype, setting.memory, {**setting.env, **lesser}, log, _PATIENCE
    )
    began, started, loaded, failure = time.monotonic(), None, "", ""
    exchanges: list[Exchange] = []
    try:
        with serving(request) as server:
            started = server.started
            answers = setting.work / f"{log.stem}.json"
            _script(setting, "ask.py", server.url, NAME, questions, answers)
            asked, said = (json.loads(path.read_text(encoding="utf-8")) for path in (questions, answers))
            exchanges = [
                Exchange(question=Question.model_validate(question), answer=Answer.model_validate(answer))
                for question, answer in zip(asked, said, strict=True)
            ]
            loaded = "+".join(sorted(server.libraries()))
            server.end()
        if library and loaded != library:
            failure = f"the server loaded {loaded or 'no library'}, and not {library}"
    except ServerError as error:
        failure = f"{error}{first_error(log)}"
    except CommandError as error:
        failure = f"a request failed{first_error(log) or f': {error.what}'}"
    return Case(
        model=name, dtype=dtype, library=loaded, wanted=library, started=started and round(started, 1),
        seconds=round(time.monotonic() - began, 1), exchanges=tuple(exchanges), failure=failure, log=log.name,
    )  # fmt: skip


def first_error(log: Path) -> str:
    """Return the first error of a server's log, as what follows a message; nothing if it has none."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    found = _ERROR.search(text)
    return f": {found[1]}" if found else ""


def _script(setting: _Setting, script: str, *arguments: str | Path) -> None:
    log = setting.logs / "serve-scripts.log"
    run([setting.environment.python, "-P", _RESOURCES / script, *arguments], log=log, env=setting.env)
