"""One run of serving: a wheel in an environment, models, and a case for each model, data type and library."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cpuwheels.config.host import is_foreign, markers
from cpuwheels.config.options import BuildOptions
from cpuwheels.core.errors import UsageError
from cpuwheels.environment.torch_environment import torch_environment
from cpuwheels.pipeline.context import open_context
from cpuwheels.pipeline.serve_emulated import serve_emulated
from cpuwheels.pipeline.serving_sandbox import model_places, serving_sandbox
from cpuwheels.pipeline.test_environment import hold_onednn_back, this_cpu
from cpuwheels.verification.emulation.cpus import require_runnable
from cpuwheels.verification.onednn_isa import needed_variables
from cpuwheels.verification.parity.preflight import require_products
from cpuwheels.verification.serving.case import Wanted
from cpuwheels.verification.serving.compiler import compiler_variables, lacking_headers
from cpuwheels.verification.serving.environment import serving_environment
from cpuwheels.verification.serving.lesser_cpu import best_library, lesser_cpu
from cpuwheels.verification.serving.memory import memory_share
from cpuwheels.verification.serving.models import MADE, Model, chosen_models
from cpuwheels.verification.serving.operators import library_operators
from cpuwheels.verification.serving.result import Served
from cpuwheels.verification.serving.run import serve_models
from cpuwheels.verification.serving.setting import Setting, server_variables
from cpuwheels.wheel.kernel_wheel import read_wheel

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from cpuwheels.config.matrix import Matrix, Target
    from cpuwheels.config.paths import Paths
    from cpuwheels.config.serving_options import ServeOptions
    from cpuwheels.core.console import Reporter
    from cpuwheels.toolchain.native_helpers import CpuFeatures
    from cpuwheels.verification.onednn_isa import OnednnLimit
    from cpuwheels.verification.serving.result import Case
    from cpuwheels.wheel.kernel_wheel import KernelWheel

_SMOKE = ("qwen3", "moe")
"""Models of the level ``smoke``: attention and projections, and experts."""


def serve_wheel(
    paths: Paths, matrix: Matrix, name: str, wheel: Path, options: ServeOptions, reporter: Reporter
) -> tuple[Served, Path]:
    """Serve small models from a wheel and compare the answers with transformers'.

    Args:
        paths: Folders to read and write.
        matrix: The configuration.
        name: Target id.
        wheel: A wheel of that target.
        options: What the user chose.
        reporter: Told of every step.

    Returns:
        What was found, wrong answers and failed starts included; and the folder of the logs.

    Raises:
        CpuwheelsError: Any stage's own error.
    """
    target = matrix.buildable(name)
    found = read_wheel(wheel, target, markers(target, matrix.python[0]))
    check_locks(options)
    context = open_context(paths, matrix, target, BuildOptions(), reporter)
    if is_foreign(target):
        return serve_emulated(context, found, options), context.logs
    check_libraries(options, target, found)
    cpu, asked = this_cpu(context), options.modes
    options = filled_in(options, target, found, cpu)
    models = chosen_models(options.models, MADE)
    for library in options.libraries:
        require_runnable(library, {each.name: each.needs for each in target.libraries}, cpu.features)
    limit = hold_onednn_back(reporter, cpu)
    began, started = datetime.now(UTC), time.monotonic()
    with (
        context.store.scratch("wheel") as work,
        server_variables(work, limit) as env,
        serving_sandbox(context, work, env) as sandbox,
    ):
        with reporter.stage("environment", f"{wheel.name}, torch {found.torch} and everything else it requires"):
            torch = torch_environment(context, found.torch)
            environment = serving_environment(context, torch, found, work, locked=options.locked, relock=options.relock)
            readable = [work / "venv", *torch.places, *model_places(models.values())]
            confine = sandbox.confine(environment.python, readable)
            require_products(environment.python, needed_variables(limit), context.logs / "preflight.log", confine)
            compiler = ""
            if "compile" in options.modes and (why := lacking_headers(environment.python, confine)):
                options = _without_compile(options, asked, why, reporter)
            if "compile" in options.modes:
                variables, compiler, places = compiler_variables(context, work)
                env.update(variables)
                confine = sandbox.confine(environment.python, [*readable, *places])
            loadable = {name: place for name, place in found.libraries.items() if runs(name, target, cpu)}
            log = context.logs / "operators.log"
            operators = library_operators(
                environment.python, environment.site, loadable, work / "operators", log, confine
            )
        setting = Setting(
            environment,
            work,
            context.logs,
            memory_share(),
            env,
            compiler,
            figures=options.level == "full",
            confine=confine,
        )
        with reporter.stage("serve", "small models, greedy answers, compared with transformers'"):
            cases = []
            for case in _cases(setting, found, models, options, target, cpu, limit, operators):
                reporter.info(case.as_line())
                for problem in case.problems:
                    reporter.info(f"{case.name}: {problem}")
                cases.append(case)
    return Served(
        wheel=wheel.name,
        sha256=found.sha256,
        version=found.version,
        torch=environment.torch,
        python=environment.version,
        machine=cpu.model,
        requirements=environment.lock,
        requirements_sha256=environment.lock_sha256,
        lacks=environment.lacks,
        moved=environment.moved,
        memory_utilization=setting.memory,
        onednn_limit=limit.isa if limit else "",
        onednn_reason=limit.reason if limit else "",
        sandbox=sandbox.as_record(),
        began=began.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - started, 1),
        cases=tuple(cases),
    ), context.logs


def filled_in(options: ServeOptions, target: Target, wheel: KernelWheel, cpu: CpuFeatures) -> ServeOptions:
    """Return the options with what their level serves where they do not say it.

    ``smoke`` serves some models in bfloat16, on the library that vLLM chooses; ``full`` serves all in all ways, on each
    library that this CPU can run and vLLM can be made to load.
    """
    full = options.level == "full"
    libraries = tuple(name for name in wheel.libraries if runs(name, target, cpu)) if not target.chooser else ()
    return replace(
        options,
        models=options.models or (tuple(MADE) if full else _SMOKE),
        dtypes=options.dtypes or (("float32", "bfloat16") if full else ("bfloat16",)),
        modes=options.modes or (("eager", "compile") if full else ("eager",)),
        libraries=options.libraries or (libraries if full else ()),
    )


def _without_compile(options: ServeOptions, asked: Collection[str], why: str, reporter: Reporter) -> ServeOptions:
    if "compile" in asked:
        raise UsageError(
            f"torch.compile cannot work here: {why}",
            where="--mode compile",
            next_step="leave the mode out, or serve a release whose torch comes from PyTorch's index",
        )
    reporter.announce(f"not served with torch.compile: {why}")
    return replace(options, modes=("eager",))


def runs(library: str, target: Target, cpu: CpuFeatures) -> bool:
    """Return whether a CPU can run a library of a target."""
    return any(each.name == library and set(each.needs) <= cpu.features for each in target.libraries)


def check_locks(options: ServeOptions) -> None:
    """Refuse options that exclude each other.

    Raises:
        UsageError: They do.
    """
    if options.locked and options.relock:
        raise UsageError("--locked uses a lock and --relock writes one", where="--relock", next_step="give one of them")


def check_libraries(options: ServeOptions, target: Target, wheel: KernelWheel) -> None:
    """Refuse libraries that cannot be asked for on this machine.

    Raises:
        UsageError: There is no such library, or the target's chooser decides.
    """
    if options.libraries and target.chooser:
        raise UsageError(
            f"the chooser of target {target.id} decides which library is loaded",
            where="--library",
            next_step="leave it out; the environment variable CPUWHEELS_ISA asks a chooser for a library",
        )
    for library in options.libraries:
        if library not in wheel.libraries or library not in {each.name for each in target.libraries}:
            raise UsageError(
                f"{wheel.path.name} has no library {library}",
                where="--library",
                next_step=f"it has: {', '.join(wheel.libraries)}",
            )


def _cases(
    setting: Setting,
    wheel: KernelWheel,
    models: Mapping[str, Path | None],
    options: ServeOptions,
    target: Target,
    cpu: CpuFeatures,
    limit: OnednnLimit | None,
    operators: Mapping[str, Collection[str]],
) -> Iterator[Case]:
    """Serve each model in each data type it has, on each library and in each mode."""
    users = limit.environment() if limit and limit.from_user else {}

    def wanted(name: str, place: Path, dtype: str) -> list[Wanted]:
        return [
            Wanted(
                name,
                place,
                dtype,
                library,
                target.chooser or "",
                wheel.preloads,
                {**lesser_cpu(target, library, cpu.features), **users} if library else {},
                mode,
                MADE.get(name, Model()).lacks(operators[library or best_library(target, cpu.features)]),
            )
            for library in options.libraries or ("",)
            for mode in options.modes
        ]

    yield from serve_models(setting, models, options.dtypes, wanted)
