"""Tests of finished wheels: parity of their kernels, and their speed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.config.host import check_own_machine, markers
from cpuwheels.config.options import BuildOptions
from cpuwheels.core.filesystem import storage_errors
from cpuwheels.environment.build_env import TOOLS_LOCK
from cpuwheels.environment.test_env import separate_environment
from cpuwheels.environment.torch_environment import torch_environment
from cpuwheels.environment.wheel_install import PARITY_LOCK, install_wheel
from cpuwheels.kernels.memory.limits import usable_cpus
from cpuwheels.pipeline.context import open_context
from cpuwheels.pipeline.provenance import note_or_none
from cpuwheels.pipeline.test_environment import hold_onednn_back, parity_environment, this_cpu
from cpuwheels.sandbox.prepare import confine_as, get_sandbox
from cpuwheels.sandbox.steps import timing
from cpuwheels.verification.benchmark.result import SpeedResult
from cpuwheels.verification.benchmark.run import Side, SpeedRequest, compare_wheels, require_comparable
from cpuwheels.verification.load.dispatch_check import require_chosen
from cpuwheels.verification.onednn_isa import needed_variables
from cpuwheels.verification.parity.operator_filter import require_in_libraries
from cpuwheels.verification.parity.preflight import SCRIPTS, require_products
from cpuwheels.verification.parity.run import ParityRequest, run_parity
from cpuwheels.wheel.kernel_wheel import read_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.matrix import Matrix
    from cpuwheels.config.options import ParityOptions, SpeedOptions
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter
    from cpuwheels.pipeline.provenance import WheelNote
    from cpuwheels.verification.onednn_isa import OnednnLimit
    from cpuwheels.verification.parity.results import Parity
    from cpuwheels.wheel.kernel_wheel import KernelWheel


def check_wheel(
    paths: Paths, matrix: Matrix, name: str, wheel: Path, options: ParityOptions, reporter: Reporter
) -> Parity:
    """Test the kernels of a wheel in a clean environment with the torch it requires.

    Args:
        paths: Folders to read and write.
        matrix: The configuration.
        name: Target id.
        wheel: A wheel of that target.
        options: What the user chose.
        reporter: Told of every step.

    Returns:
        What was found, wrong results included.

    Raises:
        CpuwheelsError: Any stage's own error.
    """
    target = matrix.buildable(name)
    found = read_wheel(wheel, target, markers(target, matrix.python[0]))
    require_in_libraries(options.operators, [found], "no library of the wheel")
    context = open_context(paths, matrix, target, BuildOptions(), reporter)
    with context.store.scratch("wheel") as work:
        environment = parity_environment(context, found, options, work)
        with reporter.stage("parity", f"the kernels of {wheel.name}, {options.level}"):
            if target.chooser is not None and target.chooser not in found.libraries:
                cpus = [trial.cpu for trial in environment.trials]
                log, confine = context.logs / "chooser.log", environment.confine
                loaded = require_chosen(cpus, target, environment.site, log, confine=confine)
                for cpu, library in loaded.items():
                    reporter.info(f"{target.chooser} loads {library} on {cpu or environment.machine}")
            for own in (trial.cpu for trial in environment.trials if not trial.cpu.name):
                require_products(own.python[0], own.environment, context.logs / "preflight.log", environment.confine)
            note = note_or_none(wheel)
            fixed = note.fixed_faults if note else ()
            untried = note.untried if note else {}
            request = ParityRequest(found, target, options.operators, fixed, _onednn(note), untried)
            return run_parity(request, environment, reporter)


def compare_speed(
    paths: Paths, matrix: Matrix, name: str, wheel: Path, options: SpeedOptions, reporter: Reporter
) -> SpeedResult:
    """Time the kernels of two wheels in turn.

    Raises:
        CpuwheelsError: Any stage's own error.
    """
    target = matrix.buildable(name)
    check_own_machine(target)
    about = markers(target, matrix.python[0])
    wheels = [
        read_wheel(path, target, about, option) for path, option in ((wheel, "--wheel"), (options.against, "--against"))
    ]
    require_in_libraries(options.operators, wheels, "neither wheel")
    context = open_context(paths, matrix, target, BuildOptions(), reporter)
    cpu = this_cpu(context)
    limit = hold_onednn_back(reporter, cpu)
    needs = {library.name: library.needs for library in target.libraries}
    library = options.library or next(
        (name for name, features in needs.items() if cpu.features.issuperset(features)), target.libraries[0].name
    )
    require_comparable(library, wheels, needs, cpu.features)
    request = SpeedRequest(
        library, options.operators, options.rounds, options.cases, options.threads or usable_cpus().count
    )
    with context.store.scratch("wheel") as work:
        with reporter.stage("environment", "both wheels, each with the torch it requires"):
            own, other = [
                _side(context, each, work / place, limit)
                for each, place in zip(wheels, ("wheel", "against"), strict=True)
            ]
            for side in {side.wheel.torch: side for side in (own, other)}.values():
                require_products(side.python, side.env, context.logs / "preflight.log", side.confine)
        with reporter.stage("kernel speed", f"{library}, {options.rounds} rounds"):
            script = paths.root / "tests" / "parity" / "time_cases.py"
            found = compare_wheels(request, own, other, script=script, logs=context.logs, reporter=reporter)
    return SpeedResult(
        request,
        own,
        other,
        tuple(found.speeds()),
        tuple(found.left_out),
        cpu.model,
        limit,
        get_sandbox(context).mechanism.as_record(),
        (_onednn(note_or_none(own.wheel.path)), _onednn(note_or_none(other.wheel.path))),
    )


def _onednn(note: WheelNote | None) -> str:
    """Return the release of the oneDNN in a wheel; empty if its note does not say, or there is none."""
    return note.onednn.release if note and note.onednn else ""


def _side(context: BuildContext, wheel: KernelWheel, folder: Path, limit: OnednnLimit | None) -> Side:
    environment = torch_environment(context, wheel.torch)
    python = separate_environment(environment, folder / "venv", context.lock(TOOLS_LOCK), context.logs)
    site = install_wheel(wheel.path, python, context.lock(PARITY_LOCK), context.logs)
    packages = [folder / "venv", SCRIPTS, *environment.places]
    own, tests = folder / "temporary", context.root / "tests" / "parity"
    with storage_errors(own):
        own.mkdir(parents=True)
    confine = confine_as(context, lambda _: timing(python, packages, tests, own))
    return Side(wheel, python, site, needed_variables(limit), confine)
