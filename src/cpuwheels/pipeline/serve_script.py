"""A script that asks a server with the wheel, for a verdict of a bisection."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.config.host import check_own_machine, markers
from cpuwheels.config.options import BuildOptions
from cpuwheels.core.concurrency import ended_after
from cpuwheels.core.errors import CommandError, UsageError
from cpuwheels.core.process import run
from cpuwheels.environment.torch_environment import torch_environment
from cpuwheels.pipeline.context import open_context
from cpuwheels.pipeline.serving_sandbox import model_places, serving_sandbox
from cpuwheels.pipeline.test_environment import hold_onednn_back, this_cpu
from cpuwheels.pipeline.user_places import UserPlaces
from cpuwheels.verification.serving.case import first_error
from cpuwheels.verification.serving.environment import serving_environment
from cpuwheels.verification.serving.memory import memory_share
from cpuwheels.verification.serving.models import MADE, chosen_models
from cpuwheels.verification.serving.questions import make_models
from cpuwheels.verification.serving.server import NAME, ServerError, ServerRequest, serving
from cpuwheels.verification.serving.setting import Setting, server_variables
from cpuwheels.wheel.kernel_wheel import read_wheel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cpuwheels.config.matrix import Matrix
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter

MODEL = "qwen3"
"""The model that is served to a script unless it is told another: one that is made on the spot."""

DTYPE = "bfloat16"


@dataclass(frozen=True)
class ScriptRequest:
    """A script that asks a server.

    Attributes:
        script: The script.
        limit: Seconds that it has; None for no limit.
        env: Variables that it gets besides; the server does not.
        places: What of the user's files it sees, which the server does not; the working folder if not given.
        model: What is served: a model that is made on the spot, or a model's folder.
    """

    script: Path
    limit: float | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    places: UserPlaces | None = None
    model: str = MODEL


@dataclass(frozen=True)
class ScriptResult:
    """What became of a script and of the server that it asked.

    Attributes:
        status: Its exit status, negative for a signal; None if it was not run or was ended.
        failure: What went wrong with the server, or that the script took too long; empty if nothing did.
        last: The last line that the script printed.
        late: Whether the script was ended since it took too long.
    """

    status: int | None
    failure: str
    last: str
    late: bool = False


def check_script(script: Path) -> None:
    """Refuse a script that cannot be run.

    Raises:
        UsageError: It is no Python file and not executable.
    """
    if script.suffix != ".py" and not os.access(script, os.X_OK):
        raise UsageError(
            f"{script} is neither a Python file nor executable",
            where="--serve",
            next_step="make it executable, or name it *.py to be run by the environment's Python",
        )


def serve_script(
    paths: Paths, matrix: Matrix, name: str, wheel: Path, request: ScriptRequest, reporter: Reporter
) -> ScriptResult:
    """Serve a model, and run a script that asks the server.

    The script runs in the working folder. It finds the server through ``OPENAI_BASE_URL`` and ``OPENAI_API_KEY``, as
    OpenAI's client does, the model's name in ``CPUWHEELS_MODEL``, and the interpreter of the server's environment in
    ``CPUWHEELS_PYTHON``; a Python file is run by that.

    Args:
        paths: Folders to read and write.
        matrix: The configuration.
        name: Target id.
        wheel: A wheel of that target.
        request: The script.
        reporter: Told of every step.

    Raises:
        CpuwheelsError: Any stage's own error.
    """
    script, limit = request.script, request.limit
    places = request.places or UserPlaces(Path.cwd())
    ((model_name, folder),) = chosen_models([request.model], MADE).items()
    target = matrix.buildable(name)
    check_own_machine(target)
    found = read_wheel(wheel, target, markers(target, matrix.python[0]))
    context = open_context(paths, matrix, target, BuildOptions(), reporter)
    onednn = hold_onednn_back(reporter, this_cpu(context))
    log = context.logs / "serve-script.log"
    with (
        context.store.scratch("wheel") as work,
        server_variables(work, onednn) as env,
        serving_sandbox(context, work, env) as sandbox,
    ):
        with reporter.stage("environment", f"{wheel.name}, torch {found.torch} and everything else it requires"):
            torch = torch_environment(context, found.torch)
            environment = serving_environment(context, torch, found, work, locked=False, relock=False)
        readable = [work / "venv", *torch.places, *model_places([folder])]
        confine = sandbox.confine(environment.python, readable)
        setting = Setting(environment, work, context.logs, memory_share(), env, confine=confine)
        model = folder or make_models(setting, [model_name])[model_name]
        server_log = context.logs / f"serve-{model_name}.log"
        started = ServerRequest(
            environment.python, model, DTYPE, setting.memory, env, server_log, confine=setting.confine
        )
        status, last = None, ""
        try:
            with reporter.stage("serve", f"{script.name} asks a server; log: {log}"), serving(started) as server:
                asked = {
                    **env,
                    **request.env,
                    "OPENAI_BASE_URL": server.url,
                    "OPENAI_API_KEY": "none",
                    "CPUWHEELS_MODEL": NAME,
                    "CPUWHEELS_PYTHON": str(environment.python),
                }
                command = [environment.python, script] if script.suffix == ".py" else [script]
                confined = sandbox.script(environment.python, [*readable, script], places)(command, asked)
                with ended_after(limit) as late:
                    done = confined.ended(run(confined.argv, log=log, env=confined.env, cwd=places.folder, check=False))
                last = next(iter(reversed(done.output.strip().splitlines())), "")
                if late.is_set():
                    return ScriptResult(None, f"no end within {limit:g} s", last, late=True)
                status = done.returncode
                server.end()
        except ServerError as error:
            return ScriptResult(status, f"{error}{first_error(server_log)}", last)
        except CommandError as error:
            return ScriptResult(status, f"{error.what}{first_error(server_log)}", last)
    return ScriptResult(status, "", last)
