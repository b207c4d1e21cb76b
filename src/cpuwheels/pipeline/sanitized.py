"""Parity of kernels that are compiled for sanitizers: libraries in the store, and never a wheel."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.config.host import check_own_machine
from cpuwheels.config.options import BuildOptions
from cpuwheels.core.errors import ToolchainError, UsageError
from cpuwheels.core.process import run
from cpuwheels.fetch.debian.mirrors import debian_mirrors
from cpuwheels.fetch.debian.root import unpacked_root
from cpuwheels.kernels.build import get_kernels
from cpuwheels.kernels.ccache.install import chosen_cache
from cpuwheels.kernels.memory.plan import memory_cap
from cpuwheels.kernels.memory.plan import plan as plan_jobs
from cpuwheels.kernels.result import MODULES
from cpuwheels.kernels.sanitizers import ARCHER, OPENMP, SANITIZERS
from cpuwheels.pipeline.context import open_context
from cpuwheels.pipeline.default_source import with_default_source
from cpuwheels.pipeline.inputs import compiler, gather, upstream
from cpuwheels.pipeline.test_environment import sanitized_environment
from cpuwheels.sandbox.prepare import get_sandbox
from cpuwheels.source.request import wanted_source
from cpuwheels.toolchain.debian_compiler import patchelf
from cpuwheels.verification.parity.preflight import require_products
from cpuwheels.verification.parity.run import ParityRequest, run_parity
from cpuwheels.verification.parity.sanitizer_run import SanitizerRun
from cpuwheels.wheel.kernel_wheel import KernelWheel

if TYPE_CHECKING:
    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.matrix import Matrix, Target
    from cpuwheels.config.options import ParityOptions, Sanitizer
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter
    from cpuwheels.pipeline.inputs import Inputs
    from cpuwheels.verification.parity.results import Parity

KIND = "sanitizers"
"""The run times' kind in the store."""


def check_sanitized(
    paths: Paths, matrix: Matrix, name: str, sanitize: Sanitizer, options: ParityOptions, reporter: Reporter
) -> Parity:
    """Compile a source's kernels for sanitizers, and run the cases on them.

    Source, patches and compiler are those of a release's wheel.

    Args:
        paths: Folders to read and write.
        matrix: The configuration.
        name: Target id.
        sanitize: Which sanitizers.
        options: What the user chose.
        reporter: Told of every step.

    Returns:
        What was found: reports of the sanitizers, and wrong results.

    Raises:
        UsageError: A wheel is given, or the target names no run times.
        CpuwheelsError: Any stage's own error.
    """
    if options.wheel:
        raise UsageError(
            "a wheel has no kernels that were compiled for sanitizers",
            where="--wheel",
            next_step="leave it out; --source says what is compiled",
        )
    target = matrix.buildable(name)
    check_own_machine(target)
    build = BuildOptions(source=options.source, toolchain="debian", sanitize=sanitize)
    plan = plan_jobs(paths.root, target, build)
    wanted_source(matrix, target, build)
    context, known = with_default_source(open_context(paths, matrix, target, build, reporter))
    request = wanted_source(matrix, target, context.options)
    context = replace(context, store=context.store.trusting(request.trust))
    get_sandbox(context)
    runtimes = _runtimes(context, sanitize)
    found = upstream(context, request)
    toolchain, native = compiler(context)
    inputs = gather(context, found, known)
    title = SANITIZERS[sanitize].title
    with reporter.stage("kernels", f"compiled for {title}; {plan.jobs} jobs at once ({plan.reason})"):
        cap, cache = memory_cap(context, plan, native.memgate), partial(chosen_cache, context)
        kernels = get_kernels(context, inputs.request(context, toolchain), cap=cap, cache=cache)
    wheel = _in_place_of_a_wheel(target, inputs, title)
    with context.store.scratch("sanitized") as work:
        loaded = SanitizerRun(runtimes, SANITIZERS[sanitize])
        environment = sanitized_environment(context, kernels.folder, inputs.environment, options, loaded, work)
        with reporter.stage("parity", f"the kernels of {wheel.path.name}, {options.level}"):
            for cpu in (trial.cpu for trial in environment.trials):
                env = {**cpu.environment, **loaded.environment}
                require_products(cpu.python[0], env, context.logs / "preflight.log", environment.confine)
            faults = sorted(inputs.prepared.fixed_faults)
            return run_parity(ParityRequest(wheel, target, options.operators, faults), environment, reporter)


def _runtimes(context: BuildContext, sanitize: Sanitizer) -> Path:
    """Return the folder with the run times of the pinned compiler's sanitizers.

    Raises:
        UsageError: The target names none.
    """
    target = context.target
    if target.sanitizers is None:
        raise UsageError(
            f"no run times of sanitizers are pinned for target '{target.id}'",
            where=f"--sanitize {sanitize}",
            next_step="name a lock with them in matrix.yaml (sanitizers)",
        )
    lock = load_lock(context.root, target.sanitizers)
    mirrors = debian_mirrors(context)
    return unpacked_root(
        lock,
        KIND,
        mirrors=mirrors,
        store=context.store,
        reporter=context.reporter,
        finish=lambda fresh, _: _rename_openmp(fresh, context.logs / "sanitizers.log"),
        finish_key="openmp 1",
    )


def _rename_openmp(fresh: Path, log: Path) -> None:
    """Add a copy of LLVM's OpenMP runtime that the dynamic loader takes for GNU's: torch's own is not loaded then."""
    runtime = fresh / OPENMP
    if not (fresh / ARCHER).is_file():
        raise ToolchainError(
            "the packages lack Archer, without which ThreadSanitizer takes every parallel loop for a race",
            where=f"locks/: {ARCHER}",
            next_step="add libomp-19-dev to the lock of the target's sanitizers and run `nox -s lock`",
        )
    runtime.parent.mkdir()
    shutil.copyfile(fresh / "usr/lib/llvm-19/lib/libomp.so.5", runtime)
    run([patchelf(), "--set-soname", runtime.name, runtime], log=log)


def _in_place_of_a_wheel(target: Target, inputs: Inputs, title: str) -> KernelWheel:
    """Return the libraries in the store as the cases take those of a wheel."""
    return KernelWheel(
        path=Path(f"vLLM {inputs.source.version} with {title}"),
        sha256="",
        version=inputs.source.version,
        torch=inputs.environment.torch_version,
        libraries={name: f"{MODULES}/{name}.abi3.so" for name in target.library_names},
    )


def reports_folder(paths: Paths, target: str, sanitize: Sanitizer) -> Path:
    """Return where the reports of a run go if the user names no place: a folder that never holds a wheel."""
    return paths.dist / target / f"sanitizers-{sanitize}"
