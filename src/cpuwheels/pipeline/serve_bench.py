"""``nox -s serve-bench``: two wheels into two environments, served in turn under the same load."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cpuwheels.config.host import check_own_machine, markers
from cpuwheels.config.installation import version_text
from cpuwheels.config.options import BuildOptions
from cpuwheels.core.errors import UsageError
from cpuwheels.environment.torch_environment import torch_environment
from cpuwheels.fetch.requested_wheel import requested_wheel
from cpuwheels.kernels.memory.limits import usable_cpus
from cpuwheels.pipeline.context import open_context
from cpuwheels.pipeline.serving_sandbox import model_places, serving_sandbox
from cpuwheels.pipeline.test_environment import hold_onednn_back, this_cpu
from cpuwheels.source.sdist import DEFAULT_INDEX
from cpuwheels.verification.onednn_isa import needed_variables
from cpuwheels.verification.parity.preflight import require_products
from cpuwheels.verification.serve_bench.compare import SERVER_MODULE, BenchCase, BenchSetting, Side, compare_servers
from cpuwheels.verification.serve_bench.load import ANSWER_TOKENS, PROMPT_TOKENS, Load
from cpuwheels.verification.serve_bench.models import DRAFT, MADE, make_bench_models
from cpuwheels.verification.serve_bench.preload import find_library
from cpuwheels.verification.serve_bench.result import BenchedSide, ServeBench, bench_loads
from cpuwheels.verification.serving.environment import serving_environment
from cpuwheels.verification.serving.memory import memory_share
from cpuwheels.verification.serving.models import chosen_models
from cpuwheels.verification.serving.setting import server_variables
from cpuwheels.wheel.kernel_wheel import read_wheel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.matrix import Matrix, Target
    from cpuwheels.config.paths import Paths
    from cpuwheels.config.serving_options import ServeBenchOptions
    from cpuwheels.core.console import Reporter
    from cpuwheels.environment.sealed_env import Environment
    from cpuwheels.toolchain.native_helpers import CpuFeatures
    from cpuwheels.verification.serving.environment import ServingEnvironment
    from cpuwheels.wheel.kernel_wheel import KernelWheel

_INDEX = "CPUWHEELS_PYPI_INDEX"


@dataclass(frozen=True)
class _SideOptions:
    """What the user chose for one side."""

    option: str
    env: Mapping[str, str]
    preload: tuple[str, ...]


def serve_bench(
    paths: Paths, matrix: Matrix, name: str, wheel: str, options: ServeBenchOptions, reporter: Reporter
) -> ServeBench:
    """Serve the same models from two wheels in turn and time the answers.

    Args:
        paths: Folders to read and write.
        matrix: The configuration.
        name: Target id.
        wheel: A wheel of that target: a file, or a requirement.
        options: What the user chose.
        reporter: Told of every step.

    Returns:
        What was found, slower answers included.

    Raises:
        CpuwheelsError: Any stage's own error.
    """
    target = matrix.buildable(name)
    check_own_machine(target)
    common = variables(options.env, "--env")
    chosen = (
        _SideOptions("wheel", variables(options.wheel_env, "--wheel-env"), options.wheel_preload),
        _SideOptions("against", variables(options.against_env, "--against-env"), options.against_preload),
    )
    models = chosen_bench_models(options)
    context = open_context(paths, matrix, target, BuildOptions(), reporter)
    with reporter.stage("wheels", f"{wheel} and {options.against}"):
        wheels = [
            _wheel(context, text, f"--{side.option}")
            for text, side in zip((wheel, options.against), chosen, strict=True)
        ]
    require_different(wheels, chosen)
    cpu = this_cpu(context)
    require_servable(wheels, target, cpu)
    limit = hold_onednn_back(reporter, cpu)
    began, started = datetime.now(UTC), time.monotonic()
    with (
        context.store.scratch("wheel") as work,
        server_variables(work, limit) as env,
        serving_sandbox(context, work, env) as sandbox,
    ):
        with reporter.stage("environment", "both wheels, each with torch and everything else it requires"):
            torches = {wheel.torch: torch_environment(context, wheel.torch) for wheel in wheels}
            environments = _environments(context, wheels, torches, work)
            sides = _sides(wheels, environments, chosen)
            loads = next((side for side in sides if side.has_command), sides[0])
            readable = [each.python.parent.parent for each in environments]
            readable += [place for torch in torches.values() for place in torch.places]
            readable += [library for side in sides for library in side.preload]
            confine = sandbox.confine(environments[0].python, [*readable, *model_places(models.values())])
            for python in dict.fromkeys(each.python for each in environments):
                require_products(python, needed_variables(limit), context.logs / "preflight.log", confine)
            load = Load(loads.environment.python, env, work, context.logs / "serve-bench-load.log", confine)
            made = make_bench_models(load, [each for each, folder in models.items() if folder is None])
        cases = [
            BenchCase(model, folder or made[model], speculation, made[DRAFT] if speculation == "draft" else None)
            for model, folder in models.items()
            if model != DRAFT or DRAFT in options.models
            for speculation in options.speculations
        ]
        module = announce_module(sides, reporter)
        setting = BenchSetting(
            load=load,
            logs=context.logs,
            memory=memory_share(),
            env={**env, **common},
            dtype=options.dtype,
            at_once=options.at_once,
            rounds=options.rounds,
            module=module,
        )
        with reporter.stage("serve", f"{len(cases)} models and settings, {options.rounds} rounds of both sides"):
            found = compare_servers(setting, sides, cases, reporter)
    own, other = (BenchedSide.of(side, found.loaded[side.option]) for side in sides)
    return ServeBench(
        project=version_text(),
        wheel=own,
        against=other,
        machine=cpu.model,
        cpus=usable_cpus().count,
        onednn_limit=limit.isa if limit else "",
        env=dict(common),
        dtype=options.dtype,
        prompt_tokens=PROMPT_TOKENS,
        answer_tokens=ANSWER_TOKENS,
        rounds=options.rounds,
        began=began.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - started, 1),
        loads=bench_loads(found),
        sandbox=sandbox.as_record(),
    )


def variables(given: Sequence[str], option: str) -> dict[str, str]:
    """Return variables that are given as ``NAME=VALUE``.

    Raises:
        UsageError: One has no name or no equals sign, or is ``LD_PRELOAD``, which has options of its own.
    """
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise UsageError(f"{text!r} is not NAME=VALUE", where=option, next_step=f"write {option} NAME=VALUE")
        if name == "LD_PRELOAD":
            raise UsageError(
                "what is preloaded has options of its own, which find libraries by name",
                where=f"{option} {name}",
                next_step="give --wheel-preload or --against-preload, such as --against-preload libiomp5.so",
            )
        found[name] = value
    return found


def chosen_bench_models(options: ServeBenchOptions) -> dict[str, Path | None]:
    """Return the models by name, each with its folder, or None if it is made; also the one that drafts.

    Raises:
        UsageError: A folder holds no model, two models have one name, or one of the user's own is to get a draft.
    """
    models = chosen_models(dict.fromkeys(options.models), MADE)
    for text in options.models if "draft" in options.speculations else ():
        if text not in MADE:
            raise UsageError(
                f"{DRAFT} drafts only for the models that are made: {text} has another vocabulary",
                where="--speculation draft",
                next_step=f"use --speculation ngram, or a model of {', '.join(MADE)}",
            )
    return models | ({DRAFT: None} if "draft" in options.speculations else {})


def require_different(wheels: Sequence[KernelWheel], chosen: Sequence[_SideOptions]) -> None:
    """Check that the sides differ, in the wheel or in how it is served.

    Raises:
        UsageError: They do not.
    """
    settings = [(each.env, each.preload) for each in chosen]
    if wheels[0].path.resolve() == wheels[1].path.resolve() and settings[0] == settings[1]:
        raise UsageError(
            f"{wheels[0].path.name} would be compared with itself, served in the same way",
            where="--against",
            next_step="give another wheel, a copy of the file to see how much times vary, or --against-env or "
            "--against-preload",
        )


def require_servable(wheels: Sequence[KernelWheel], target: Target, cpu: CpuFeatures) -> None:
    """Check that this CPU can run a library of each wheel.

    Raises:
        UsageError: It cannot, so that a server would die of an illegal instruction.
    """
    needs = {library.name: set(library.needs) for library in target.libraries}
    for wheel, option in zip(wheels, ("--wheel", "--against"), strict=True):
        lacking = {name: sorted(needs.get(name, set()) - cpu.features) for name in wheel.libraries}
        if all(lacking.values()):
            each = "; ".join(f"{name} needs {', '.join(features)}" for name, features in lacking.items())
            raise UsageError(
                f"this CPU ({cpu.model}) can run no library of {wheel.path.name}: {each}",
                where=option,
                next_step="serve it on a CPU that has what is needed",
            )


def announce_module(sides: Sequence[Side], reporter: Reporter) -> bool:
    """Return whether both servers have to be started without the command ``vllm``, and announce that."""
    without = [side.wheel.path.name for side in sides if not side.has_command]
    if without:
        reporter.announce(
            f"the command vllm of {' and '.join(without)} finds no package called vllm, and ends: both servers are "
            f"started with python -m {SERVER_MODULE}"
        )
    return bool(without)


def _wheel(context: BuildContext, text: str, option: str) -> KernelWheel:
    """Return the wheel that was asked for, fetched if it is a requirement."""
    python = context.matrix.python[0]
    path = requested_wheel(
        text,
        context.target,
        python,
        index=os.environ.get(_INDEX) or DEFAULT_INDEX,
        setting=_INDEX,
        option=option,
        store=context.store,
        reporter=context.reporter,
    )
    return read_wheel(path, context.target, markers(context.target, python), option)


def _environments(
    context: BuildContext, wheels: Sequence[KernelWheel], torches: Mapping[str, Environment], work: Path
) -> list[ServingEnvironment]:
    """Make an environment for each wheel; one for both if they are one file."""
    made: dict[str, ServingEnvironment] = {}
    for place, wheel in zip(("wheel", "against"), wheels, strict=True):
        if wheel.sha256 in made:
            continue
        folder = work / place
        folder.mkdir()
        torch = torches[wheel.torch]
        made[wheel.sha256] = serving_environment(context, torch, wheel, folder, locked=False, relock=False)
    return [made[wheel.sha256] for wheel in wheels]


def _sides(
    wheels: Sequence[KernelWheel], environments: Sequence[ServingEnvironment], chosen: Sequence[_SideOptions]
) -> tuple[Side, Side]:
    folders = [each.python.parent.parent for each in environments]

    def side(wheel: KernelWheel, environment: ServingEnvironment, options: _SideOptions) -> Side:
        searched = sorted(folders, key=lambda folder: folder != environment.python.parent.parent)
        option = f"--{options.option}-preload"
        preload = tuple(find_library(name, searched, option) for name in options.preload)
        return Side(options.option, wheel, environment, options.env, preload)

    one, two = (side(*each) for each in zip(wheels, environments, chosen, strict=True))
    return one, two
