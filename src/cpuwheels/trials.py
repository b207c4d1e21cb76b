"""What is done with finished wheels: their kernels are tried, and timed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels import run
from cpuwheels.benches import hold_onednn_back, parity_bench, this_cpu
from cpuwheels.machine.chosen import require_chosen
from cpuwheels.memory import usable_cpus
from cpuwheels.onednn_isa import needed_variables
from cpuwheels.options import BuildOptions
from cpuwheels.parity.install import install_wheel
from cpuwheels.parity.preflight import require_products
from cpuwheels.parity.run import ParityRequest, run_parity
from cpuwheels.parity.wheel import read_wheel
from cpuwheels.platforms import check_own_machine, markers
from cpuwheels.speed.result import SpeedResult
from cpuwheels.speed.run import Side, SpeedRequest, compare_wheels, require_comparable

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config import Places
    from cpuwheels.console import Reporter
    from cpuwheels.model.matrix import Matrix
    from cpuwheels.onednn_isa import OnednnLimit
    from cpuwheels.options import ParityOptions, SpeedOptions
    from cpuwheels.parity.results import Parity
    from cpuwheels.parity.wheel import KernelWheel
    from cpuwheels.run import Run


def check_wheel(
    places: Places, matrix: Matrix, name: str, wheel: Path, options: ParityOptions, reporter: Reporter
) -> Parity:
    """Try the kernels of a wheel in a clean environment with the torch it requires.

    Args:
        places: Folders to read and write.
        matrix: The configuration.
        name: Target id.
        wheel: A wheel of that target.
        options: What the user chose.
        reporter: Told of every step.

    Returns:
        What was found; wrong results are in it.

    Raises:
        CpuwheelsError: Any stage's own error.
    """
    target = matrix.buildable(name)
    found = read_wheel(wheel, target, markers(target, matrix.python[0]))
    this = run.start(places, matrix, target, BuildOptions(), reporter)
    with this.store.scratch("wheel") as work:
        bench = parity_bench(this, found, options, work)
        with reporter.stage("parity", f"the kernels of {wheel.name}, {options.level}"):
            if target.chooser is not None and target.chooser not in found.libraries:
                cpus = [trial.cpu for trial in bench.trials]
                loaded = require_chosen(cpus, target, bench.site, this.logs / "chooser.log")
                for cpu, library in loaded.items():
                    reporter.info(f"{target.chooser} loads {library} on {cpu or bench.machine}")
            for own in (trial.cpu for trial in bench.trials if not trial.cpu.name):
                require_products(own.python[0], own.environment, this.logs / "preflight.log")
            return run_parity(ParityRequest(found, target, options.operators), bench, reporter)


def compare_speed(
    places: Places, matrix: Matrix, name: str, wheel: Path, options: SpeedOptions, reporter: Reporter
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
    this = run.start(places, matrix, target, BuildOptions(), reporter)
    cpu = this_cpu(this)
    limit = hold_onednn_back(reporter, cpu)
    needs = {library.name: library.needs for library in target.libraries}
    library = options.library or next(
        (name for name, features in needs.items() if cpu.features.issuperset(features)), target.libraries[0].name
    )
    require_comparable(library, wheels, needs, cpu.features)
    request = SpeedRequest(
        library, options.operators, options.rounds, options.cases, options.threads or usable_cpus().count
    )
    with this.store.scratch("wheel") as work:
        with reporter.stage("environment", "both wheels, each with the torch it requires"):
            own, other = [
                _side(this, each, work / place, limit) for each, place in zip(wheels, ("wheel", "against"), strict=True)
            ]
            for side in {side.wheel.torch: side for side in (own, other)}.values():
                require_products(side.python, side.env, this.logs / "preflight.log")
        with reporter.stage("kernel speed", f"{library}, {options.rounds} rounds"):
            script = places.root / "tests" / "parity" / "time_cases.py"
            found = compare_wheels(request, own, other, script=script, logs=this.logs, reporter=reporter)
    return SpeedResult(request, own, other, tuple(found.speeds()), tuple(found.left_out), cpu.model, limit)


def _side(this: Run, wheel: KernelWheel, folder: Path, limit: OnednnLimit | None) -> Side:
    python = this.separate_environment(this.environment(wheel.torch), folder)
    site = install_wheel(wheel.path, python, this.lock(run.PARITY_LOCK), this.logs)
    return Side(wheel, python, site, needed_variables(limit))
