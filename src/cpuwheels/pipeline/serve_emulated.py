"""One run of serving on an emulated machine, for a wheel of another kind of machine than this one."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.config.debian_lock import glibc_of, load_lock, python_of
from cpuwheels.config.host import markers
from cpuwheels.core.errors import BuildEnvironmentError, UsageError
from cpuwheels.fetch.wheel_tags import missing_wheels
from cpuwheels.pipeline.serving_sandbox import model_places, serving_sandbox
from cpuwheels.pipeline.test_environment import emulated, require_torch
from cpuwheels.verification.emulation.machine import require_emulated
from cpuwheels.verification.serving.case import Wanted
from cpuwheels.verification.serving.environment import emulated_environment
from cpuwheels.verification.serving.locks import misfits, own_lock
from cpuwheels.verification.serving.memory import memory_share
from cpuwheels.verification.serving.models import MADE, Model, chosen_models
from cpuwheels.verification.serving.operators import library_operators
from cpuwheels.verification.serving.requirements import APART, requirements_of
from cpuwheels.verification.serving.result import Served
from cpuwheels.verification.serving.run import serve_models
from cpuwheels.verification.serving.setting import Setting, server_variables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.matrix import Target
    from cpuwheels.config.serving_options import ServeOptions
    from cpuwheels.sandbox.confine import Confine
    from cpuwheels.verification.emulation.cpus import Cpu
    from cpuwheels.verification.serving.result import Case
    from cpuwheels.wheel.kernel_wheel import KernelWheel

_SMOKE = ("qwen3",)
"""Models of the level ``smoke``: attention and projections."""

_VARIABLES = {
    "PYTHONDONTWRITEBYTECODE": "",
    "VLLM_ENGINE_READY_TIMEOUT_S": "4800",
    "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": "2400",
    "VLLM_WORKER_SHUTDOWN_TIMEOUT_SECONDS": "60",
}
"""Bytecode that one process has made is read by the next, and vLLM's processes wait longer for each other."""


def serve_emulated(context: BuildContext, wheel: KernelWheel, options: ServeOptions) -> Served:
    """Serve small models from a wheel of another kind of machine, each library on an emulated CPU that is for it.

    Args:
        context: The run; its target names the root and, for each library, the CPU.
        wheel: The wheel.
        options: What the user chose.

    Raises:
        TargetNotBuiltError: The target cannot be emulated.
        BuildEnvironmentError: A requirement has no wheel for the machine.
        CpuwheelsError: Any stage's own error.
    """
    target, reporter = context.target, context.reporter
    require_emulated(target)
    options = emulated_options(options, target, wheel)
    models = chosen_models(options.models, MADE)
    require_wheels(context, wheel, relock=options.relock)
    began, started = datetime.now(UTC), time.monotonic()
    with (
        context.store.scratch("wheel") as work,
        server_variables(work, None) as env,
        serving_sandbox(context, work, env) as sandbox,
    ):
        with reporter.stage("environment", f"an emulated machine with {target.machine} and what the wheel requires"):
            machine = emulated(context)
            require_torch(context, wheel, machine)
            environment, cpus = emulated_environment(
                context, machine, wheel, work, locked=options.locked, relock=options.relock
            )
            used = {name: next(cpu for cpu in cpus if cpu.tries(name)) for name in options.libraries}
            log = context.logs / "operators.log"
            readable = [work / "venv", *machine.places, *model_places(models.values())]
            confine = sandbox.confine(environment.python, readable)
            operators = _operators(models, used, wheel, environment.site, work / "operators", log, confine)
        variables = {**env, **_VARIABLES}
        setting = Setting(environment, work, context.logs, memory_share(), variables, emulated=True, confine=confine)
        with reporter.stage("serve", "small models, few tokens, compared with transformers'"):
            cases = []
            for case in _cases(setting, wheel, models, options, target, used, operators):
                reporter.info(case.as_line())
                for problem in case.problems:
                    reporter.info(f"{case.name}: {problem}")
                cases.append(case)
    return Served(
        wheel=wheel.path.name,
        sha256=wheel.sha256,
        version=wheel.version,
        torch=environment.torch,
        python=environment.version,
        machine=f"{target.machine}, emulated by QEMU",
        emulated=True,
        requirements=environment.lock,
        requirements_sha256=environment.lock_sha256,
        lacks=environment.lacks,
        moved=environment.moved,
        memory_utilization=setting.memory,
        sandbox=sandbox.as_record(),
        began=began.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - started, 1),
        cases=tuple(cases),
    )


def emulated_options(options: ServeOptions, target: Target, wheel: KernelWheel) -> ServeOptions:
    """Return the options with what their level serves where they do not say it.

    ``smoke`` serves one model in bfloat16 on the first library, ``full`` all in float32 and bfloat16 on each.

    Raises:
        UsageError: A library is not in the wheel or has no emulated CPU, or none has; or torch.compile is asked for.
    """
    if "compile" in options.modes:
        raise UsageError(
            "torch.compile is not tested on an emulated machine",
            where="--mode compile",
            next_step=f"leave it out, or use a machine with {target.system} {target.machine}",
        )
    possible = [each.name for each in target.libraries if each.emulated and each.name in wheel.libraries]
    if not possible:
        raise UsageError(
            f"{wheel.path.name} has no library for which an emulated CPU is known: {', '.join(wheel.libraries)}",
            where="--wheel",
            next_step=f"use a machine with {target.system} {target.machine}",
        )
    for library in options.libraries:
        if library not in possible:
            raise UsageError(
                f"{wheel.path.name} has no library {library}, or it has no emulated CPU",
                where="--library",
                next_step=f"give one of: {', '.join(possible)}",
            )
    full = options.level == "full"
    return replace(
        options,
        models=options.models or (tuple(MADE) if full else _SMOKE),
        dtypes=options.dtypes or (("float32", "bfloat16") if full else ("bfloat16",)),
        modes=("eager",),
        libraries=options.libraries or tuple(possible if full else possible[:1]),
    )


def require_wheels(context: BuildContext, wheel: KernelWheel, *, relock: bool) -> None:
    """Refuse a wheel whose requirements have no wheels for its machine; none are looked for if the lock fits.

    Args:
        context: The run.
        wheel: The wheel.
        relock: Whether the lock is written anew.

    Raises:
        BuildEnvironmentError: There are such requirements, or they cannot be resolved.
    """
    target = context.target
    root = load_lock(context.root, str(target.root))
    python = python_of(root)
    if not relock and not misfits(context, own_lock(context, wheel.version, python), wheel.requires, python):
        return
    about, files = markers(target, python), context.logs / "pylock.serve.toml"
    wanted = [str(one) for one in requirements_of(wheel.requires, about)]
    log = context.logs / "serve-environment.log"
    missing = missing_wheels(wanted, APART, files, about=about, glibc=glibc_of(root), log=log)
    if missing:
        raise BuildEnvironmentError(
            f"{len(missing)} requirements have no wheel for {target.machine} and Python {python}: {', '.join(missing)}",
            where=f"Requires-Dist of {wheel.path.name}; {files}",
            next_step="it cannot be served without them: build their wheels and name the index that has them in "
            "UV_INDEX",
        )


def _operators(
    models: Mapping[str, Path | None],
    used: Mapping[str, Cpu],
    wheel: KernelWheel,
    site: Path,
    work: Path,
    log: Path,
    confine: Confine,
) -> dict[str, frozenset[str]]:
    """Return what each library registers, if a model asks for an operator: importing torch takes half a minute."""
    if not any(MADE.get(name, Model()).operators for name in models):
        return dict.fromkeys(used, frozenset())
    found: dict[str, frozenset[str]] = {}
    for library, cpu in used.items():
        place = {library: wheel.libraries[library]}
        found |= library_operators(Path(cpu.python[0]), site, place, work / library, log, confine)
    return found


def _cases(
    setting: Setting,
    wheel: KernelWheel,
    models: Mapping[str, Path | None],
    options: ServeOptions,
    target: Target,
    used: Mapping[str, Cpu],
    operators: Mapping[str, frozenset[str]],
) -> Iterator[Case]:
    """Serve each model in each data type it has, on each library's CPU."""

    def wanted(name: str, place: Path, dtype: str) -> Sequence[Wanted]:
        return [
            Wanted(
                name,
                place,
                dtype,
                library,
                target.chooser or "",
                wheel.preloads,
                {},
                absent=MADE.get(name, Model()).lacks(operators[library]),
                python=Path(cpu.python[0]),
                cpu=cpu.name,
            )
            for library, cpu in used.items()
        ]

    yield from serve_models(setting, models, options.dtypes, wanted)
