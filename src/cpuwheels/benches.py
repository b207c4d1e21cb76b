"""Where a wheel is tried: on this machine, or on an emulated one if it is for another kind."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.version import Version

from cpuwheels import run
from cpuwheels.debian.mirrors import mirrors
from cpuwheels.errors import TorchError, UsageError
from cpuwheels.loading import Loader
from cpuwheels.machine.cpus import Cpu
from cpuwheels.machine.emulated import emulated_machine
from cpuwheels.machine.emulator import find_emulator
from cpuwheels.machine.loaders import CpuLoaders
from cpuwheels.memory import usable_cpus
from cpuwheels.native import cpu_at_hand, probe
from cpuwheels.onednn_isa import needed_variables, onednn_limit
from cpuwheels.parity.install import install_wheel
from cpuwheels.parity.run import Bench, Trial
from cpuwheels.platforms import is_foreign
from cpuwheels.runtime import layered_environment

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.console import Reporter
    from cpuwheels.environment import Environment
    from cpuwheels.machine.emulated import EmulatedMachine
    from cpuwheels.native import CpuFeatures
    from cpuwheels.onednn_isa import OnednnLimit
    from cpuwheels.options import ParityOptions
    from cpuwheels.parity.wheel import KernelWheel
    from cpuwheels.run import Run


@dataclass(frozen=True)
class InstallBench:
    """Where the install check happens.

    Attributes:
        loader: Loads the libraries, each on a CPU that it is for.
        cpus: Those CPUs, with interpreters that find the installed wheel; none if only this machine's own is there.
        features: What they have.
        onednn: How far oneDNN may go with this machine's own; None if it finds out itself.
    """

    loader: Loader | CpuLoaders
    cpus: tuple[Cpu, ...]
    features: frozenset[str]
    onednn: OnednnLimit | None = None


def emulated(this: Run) -> EmulatedMachine:
    """Return the emulated machine of a run's target.

    Raises:
        CpuwheelsError: As `emulated_machine`.
    """
    return emulated_machine(
        this.target, this.matrix.emulator, root=this.places.root,
        mirrors=mirrors(this.matrix.debian.mirrors, os.environ), store=this.store, reporter=this.reporter,
        logs=this.logs,
    )  # fmt: skip


def install_bench(this: Run, environment: Environment, features: frozenset[str], work: Path) -> InstallBench | None:
    """Return where a wheel of the run is installed and loaded; None if nothing here can run it.

    Args:
        this: The run.
        environment: The build environment.
        features: What this machine's CPU has.
        work: Folder for what is needed during the check only.

    Raises:
        CpuwheelsError: As `emulated_machine`.
    """
    log = this.logs / "install-check.log"
    if not is_foreign(this.target):
        cpu = cpu_at_hand(this.store)
        limit = hold_onednn_back(this.reporter, cpu) if cpu else None
        loader = Loader(
            lambda: layered_environment(environment, work / "venv", this.logs), work / "check", log,
            needed_variables(limit),
        )  # fmt: skip
        return InstallBench(loader, (), features, limit)
    if this.target.root is None:
        return None
    cpus = emulated(this).environment(work / "venv")
    emulated_features = frozenset[str]().union(*(cpu.features for cpu in cpus))
    return InstallBench(CpuLoaders(cpus, work / "check", log), cpus, emulated_features)


def parity_bench(this: Run, wheel: KernelWheel, options: ParityOptions, work: Path) -> Bench:
    """Return where the kernels of a wheel are tried, with the wheel installed.

    Raises:
        UsageError: It is for another kind of machine, and there shall be no emulation.
        CpuwheelsError: Any stage's own error.
    """
    return _foreign(this, wheel, options, work) if is_foreign(this.target) else _own(this, wheel, options, work)


def this_cpu(this: Run) -> CpuFeatures:
    """Return what this machine's CPU has, compiling isaprobe if none that is there can tell.

    Raises:
        ToolchainError: It cannot be compiled.
        CommandError: As `probe`.
    """
    cpu = cpu_at_hand(this.store)
    if cpu is None:
        with this.reporter.stage("toolchain", "to compile the probe of this machine's CPU"):
            cpu = probe(this.native().isaprobe)
    return cpu


def hold_onednn_back(reporter: Reporter, cpu: CpuFeatures) -> OnednnLimit | None:
    """Return how far oneDNN may go with this machine's CPU; if it may not go all the way, say so aloud, once."""
    limit = onednn_limit(cpu, os.environ)
    if limit and (note := f"oneDNN is held back to {limit.isa}: {limit.reason}") not in reporter.announcements:
        reporter.announce(note)
    return limit


def _own(this: Run, wheel: KernelWheel, options: ParityOptions, work: Path) -> Bench:
    here = this_cpu(this)
    with this.reporter.stage("environment", f"Python with torch {wheel.torch}"):
        environment = this.environment(wheel.torch)
        python = this.separate_environment(environment, work / "venv")
        site = install_wheel(wheel.path, python, this.lock(run.PARITY_LOCK), this.logs)
    limit = hold_onednn_back(this.reporter, here)
    own = Cpu("", here.features, [python], environment=needed_variables(limit))
    trials = [Trial(own, options.level, options.threads or usable_cpus().count)]
    wanted = [library for library in this.target.libraries if library.emulated and library.name in wheel.libraries]
    # Emulation shows neither speed nor races: few cases, and one thread.
    if wanted and options.emulation and options.level != "smoke":
        emulator = find_emulator(
            this.target.machine, this.matrix.emulator, root=this.places.root,
            mirrors=mirrors(this.matrix.debian.mirrors, os.environ), store=this.store, reporter=this.reporter,
        )  # fmt: skip
        users = limit.environment() if limit and limit.from_user else {}
        for library in wanted:
            name = str(library.emulated)
            command: list[str | Path] = [emulator, "-cpu", name, python]
            cpu = Cpu(name, frozenset(library.needs), command, (library.name,), users)
            trials.append(Trial(cpu, "smoke", 1))
    return Bench(
        trials=tuple(trials), site=site, torch=environment.torch_version, tests=this.places.root / "tests" / "parity",
        work=work, logs=this.logs, machine=here.model, threads=trials[0].threads, onednn=limit,
    )  # fmt: skip


def _foreign(this: Run, wheel: KernelWheel, options: ParityOptions, work: Path) -> Bench:
    target = this.target
    if not options.emulation:
        raise UsageError(
            f"a wheel for {target.machine} cannot be tried here without emulation",
            where="--no-emulation",
            next_step=f"leave the option out, or use a machine with {target.system} {target.machine}",
        )
    with this.reporter.stage("environment", f"an emulated machine with {target.machine} and torch"):
        machine = emulated(this)
        _require_torch(this, wheel, machine)
        cpus = machine.environment(work / "venv")
        site = install_wheel(wheel.path, work / "venv" / "bin" / "python", None, this.logs)
    threads = options.threads or 1
    return Bench(
        trials=tuple(Trial(cpu, options.level, threads) for cpu in cpus), site=site, torch=machine.torch_version,
        tests=this.places.root / "tests" / "parity", work=work, logs=this.logs,
        machine=f"{target.machine}, emulated by QEMU ({', '.join(cpu.name for cpu in cpus)})", threads=threads,
        emulated=True, at_once=usable_cpus().count,
    )  # fmt: skip


def _require_torch(this: Run, wheel: KernelWheel, machine: EmulatedMachine) -> None:
    """Check that the root's torch is the one that the wheel requires, or stands in for it."""
    there = Version(machine.torch_version).public
    if there == wheel.torch:
        return
    alternate = this.torch_pin(wheel.torch).alternate(this.target.machine)
    if alternate is None or alternate.version != there:
        raise TorchError(
            f"the emulated machine has torch {machine.torch_version}; {wheel.path.name} requires {wheel.torch}",
            where=f"locks/{this.target.root}.yaml",
            next_step=f"try the wheel on a machine with {this.target.system} {this.target.machine}",
        )
    this.reporter.announce(
        f"the emulated machine has torch {machine.torch_version}, which stands in for the {wheel.torch} that the "
        "wheel requires"
    )
