"""Where a wheel is tested: on this machine, or on an emulated one if it is for another kind of machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.version import Version

from cpuwheels.config.host import is_foreign
from cpuwheels.core.errors import TorchError, UsageError
from cpuwheels.environment.build_env import TOOLS_LOCK
from cpuwheels.environment.debian_root import write_interpreter
from cpuwheels.environment.test_env import layered_environment, separate_environment
from cpuwheels.environment.torch_environment import torch_environment
from cpuwheels.environment.torch_index import torch_pin
from cpuwheels.environment.wheel_install import PARITY_LOCK, install_lock, install_wheel
from cpuwheels.kernels.memory.limits import usable_cpus
from cpuwheels.sandbox.confine import unconfined
from cpuwheels.sandbox.prepare import confine_as, get_sandbox
from cpuwheels.sandbox.steps import load, parity
from cpuwheels.toolchain.helper_toolchain import native_helpers
from cpuwheels.toolchain.native_helpers import cpu_at_hand, probe
from cpuwheels.verification.emulation.cpus import Cpu
from cpuwheels.verification.emulation.machine import emulated_machine
from cpuwheels.verification.emulation.qemu import find_emulator
from cpuwheels.verification.load.cpu_loaders import CpuLoaders
from cpuwheels.verification.load.loader import PROBES, Loader
from cpuwheels.verification.onednn_isa import needed_variables, onednn_limit
from cpuwheels.verification.parity.preflight import SCRIPTS
from cpuwheels.verification.parity.run import ParityEnvironment, Trial

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.options import ParityOptions
    from cpuwheels.core.console import Reporter
    from cpuwheels.environment.sealed_env import Environment
    from cpuwheels.sandbox.confine import Confine
    from cpuwheels.toolchain.native_helpers import CpuFeatures
    from cpuwheels.verification.emulation.machine import EmulatedMachine
    from cpuwheels.verification.onednn_isa import OnednnLimit
    from cpuwheels.verification.parity.sanitizer_run import SanitizerRun
    from cpuwheels.wheel.kernel_wheel import KernelWheel

_PARTS = 8
"""Of a library's cases on an emulated CPU, at most: each is a process that takes half a minute and 1 GiB to begin."""


@dataclass(frozen=True)
class InstallEnvironment:
    """Where the install check happens.

    Attributes:
        loader: Loads the libraries, each on a CPU that it is for.
        cpus: Those CPUs, with interpreters that find the installed wheel; none if only this machine's own is there.
        features: What they have.
        onednn: How far oneDNN may go with this machine's own; None if it finds out itself.
        confine: Confines a command of the interpreters.
    """

    loader: Loader | CpuLoaders
    cpus: tuple[Cpu, ...]
    features: frozenset[str]
    onednn: OnednnLimit | None = None
    confine: Confine = unconfined


def emulated(context: BuildContext) -> EmulatedMachine:
    """Return the emulated machine of a run's target.

    Raises:
        CpuwheelsError: As `emulated_machine`.
    """
    return emulated_machine(context)


def install_environment(
    context: BuildContext, environment: Environment, features: frozenset[str], work: Path
) -> InstallEnvironment | None:
    """Return where a wheel of the run is installed and loaded; None if nothing here can run it.

    Args:
        context: The run.
        environment: The build environment.
        features: What this machine's CPU has.
        work: Folder for what is needed during the check only.

    Raises:
        CpuwheelsError: As `emulated_machine`.
    """
    log = context.logs / "install-check.log"
    if not is_foreign(context.target):
        cpu = cpu_at_hand(context.store)
        limit = hold_onednn_back(context.reporter, cpu) if cpu else None
        confine = _confined_loading(context, environment, work)
        loader = Loader(
            lambda: layered_environment(environment, work / "venv", context.logs),
            work / "check",
            log,
            needed_variables(limit),
            confine,
        )
        return InstallEnvironment(loader, (), features, limit, confine)
    if context.target.root is None:
        return None
    machine = emulated(context)
    cpus = machine.environment(work / "venv")
    packages = [work / "venv", *machine.places]
    confine = confine_as(context, lambda python: load(python, packages, PROBES, work / "check"))
    emulated_features = frozenset[str]().union(*(cpu.features for cpu in cpus))
    loaders = CpuLoaders(cpus, work / "check", log, confine)
    return InstallEnvironment(loaders, cpus, emulated_features, confine=confine)


def _confined_loading(context: BuildContext, environment: Environment, work: Path) -> Confine:
    """Return what confines commands of the environment that a wheel is installed in."""
    packages = [work / "venv", environment.python.absolute().parent.parent, *environment.places]
    return confine_as(context, lambda python: load(python, packages, PROBES, work / "check"))


def parity_environment(
    context: BuildContext, wheel: KernelWheel, options: ParityOptions, work: Path
) -> ParityEnvironment:
    """Return where the kernels of a wheel are tested, with the wheel installed.

    Raises:
        UsageError: It is for another kind of machine, and emulation is turned off.
        CpuwheelsError: Any stage's own error.
    """
    return (
        _foreign(context, wheel, options, work) if is_foreign(context.target) else _own(context, wheel, options, work)
    )


def sanitized_environment(
    context: BuildContext,
    kernels: Path,
    environment: Environment,
    options: ParityOptions,
    sanitizers: SanitizerRun,
    work: Path,
) -> ParityEnvironment:
    """Return where kernels that were compiled for sanitizers are tested: where they lie.

    Args:
        context: The run.
        kernels: Their folder in the store.
        environment: The build environment, whose torch they need.
        options: What the user chose.
        sanitizers: With their run times.
        work: Folder for what is needed during the run only.

    Raises:
        CpuwheelsError: Any stage's own error.
    """
    here = this_cpu(context)
    with context.reporter.stage("environment", f"Python with torch {environment.runs_torch}"):
        python = separate_environment(environment, work / "venv", context.lock(TOOLS_LOCK), context.logs)
        install_lock(python, context.lock(PARITY_LOCK), context.logs)
        write_interpreter(script := work / "sanitized-python", sanitizers.command(environment.runs(python)))
    limit = hold_onednn_back(context.reporter, here)
    cpu = Cpu("", here.features, [script], environment=needed_variables(limit))
    threads, tests = options.threads or usable_cpus().count, context.root / "tests" / "parity"
    packages = [work / "venv", SCRIPTS, kernels, sanitizers.folder, *environment.places]
    return ParityEnvironment(
        trials=(Trial(cpu, options.level, threads),),
        site=kernels,
        torch=environment.runs_torch,
        tests=tests,
        work=work,
        logs=context.logs,
        machine=here.model,
        onednn=limit,
        confine=confine_as(context, lambda _: parity(python, packages, tests, work)),
        sandbox=get_sandbox(context).mechanism.as_record(),
        sanitizers=sanitizers,
    )


def this_cpu(context: BuildContext) -> CpuFeatures:
    """Return what this machine's CPU has, compiling isaprobe if none is available.

    Raises:
        ToolchainError: It cannot be compiled.
        CommandError: As `probe`.
    """
    cpu = cpu_at_hand(context.store)
    if cpu is None:
        with context.reporter.stage("toolchain", "to compile the probe of this machine's CPU"):
            cpu = probe(native_helpers(context).isaprobe)
    return cpu


def hold_onednn_back(reporter: Reporter, cpu: CpuFeatures) -> OnednnLimit | None:
    """Return how far oneDNN may go with this machine's CPU; announce a limit once."""
    limit = onednn_limit(cpu, os.environ)
    if limit and (note := f"oneDNN is held back to {limit.isa}: {limit.reason}") not in reporter.announcements:
        reporter.announce(note)
    return limit


def _own(context: BuildContext, wheel: KernelWheel, options: ParityOptions, work: Path) -> ParityEnvironment:
    here = this_cpu(context)
    with context.reporter.stage("environment", f"Python for a wheel that requires torch {wheel.torch}"):
        environment = torch_environment(context, wheel.torch)
        python = separate_environment(environment, work / "venv", context.lock(TOOLS_LOCK), context.logs)
        site = install_wheel(wheel.path, python, context.lock(PARITY_LOCK), context.logs)
    limit = hold_onednn_back(context.reporter, here)
    own = Cpu("", here.features, [python], environment=needed_variables(limit))
    packages = [work / "venv", PROBES, SCRIPTS, *environment.places]
    trials = [Trial(own, options.level, options.threads or usable_cpus().count)]
    wanted = [library for library in context.target.libraries if library.emulated and library.name in wheel.libraries]
    # Emulation shows neither speed nor races: few cases, and one thread. This CPU shows whether results repeat.
    if wanted and options.emulation and options.level != "smoke":
        emulator = find_emulator(context, context.target.machine)
        users = limit.environment() if limit and limit.from_user else {}
        packages.append(emulator.parents[2])
        for library in wanted:
            name = str(library.emulated)
            command: list[str | Path] = [emulator, "-cpu", name, *environment.runs(python)]
            cpu = Cpu(name, frozenset(library.needs), command, (library.name,), users)
            trials.append(Trial(cpu, "smoke", 1, parts=min(usable_cpus().count, _PARTS), once=True))
    tests = context.root / "tests" / "parity"
    return ParityEnvironment(
        trials=tuple(trials),
        site=site,
        torch=environment.runs_torch,
        tests=tests,
        work=work,
        logs=context.logs,
        machine=here.model,
        # One more than there are CPUs: much of a case is done by one thread, and ranks wait for one another.
        at_once=usable_cpus().count + 1,
        onednn=limit,
        confine=confine_as(context, lambda _: parity(python, packages, tests, work)),
        sandbox=get_sandbox(context).mechanism.as_record(),
    )


def _foreign(context: BuildContext, wheel: KernelWheel, options: ParityOptions, work: Path) -> ParityEnvironment:
    target = context.target
    if not options.emulation:
        raise UsageError(
            f"a wheel for {target.machine} cannot be tested here without emulation",
            where="--no-emulation",
            next_step=f"leave the option out, or use a machine with {target.system} {target.machine}",
        )
    with context.reporter.stage("environment", f"an emulated machine with {target.machine} and torch"):
        machine = emulated(context)
        require_torch(context, wheel, machine)
        cpus = machine.environment(work / "venv")
        site = install_wheel(wheel.path, work / "venv" / "bin" / "python", None, context.logs)
    packages = [work / "venv", PROBES, *machine.places]
    threads, tests, count = options.threads or 1, context.root / "tests" / "parity", usable_cpus().count
    parts = min(max(1, count // threads // len(cpus)), _PARTS)
    return ParityEnvironment(
        trials=tuple(Trial(cpu, options.level, threads, parts) for cpu in cpus),
        site=site,
        torch=machine.torch_version,
        tests=tests,
        work=work,
        logs=context.logs,
        machine=f"{target.machine}, emulated by QEMU ({', '.join(cpu.name for cpu in cpus)})",
        emulated=True,
        at_once=count,
        confine=confine_as(context, lambda python: parity(python, packages, tests, work)),
        sandbox=get_sandbox(context).mechanism.as_record(),
    )


def require_torch(context: BuildContext, wheel: KernelWheel, machine: EmulatedMachine) -> None:
    """Check that the root's torch is the one that the wheel requires, or may replace it.

    Raises:
        TorchError: It is neither.
    """
    there = Version(machine.torch_version).public
    if there == wheel.torch:
        return
    alternate = torch_pin(context.matrix, wheel.torch).alternate(context.target.machine)
    if alternate is None or alternate.version != there:
        raise TorchError(
            f"the emulated machine has torch {machine.torch_version}; {wheel.path.name} requires {wheel.torch}",
            where=f"locks/{context.target.root}.yaml",
            next_step=f"test the wheel on a machine with {context.target.system} {context.target.machine}",
        )
    context.reporter.announce(
        f"the emulated machine has torch {machine.torch_version}, used in place of the {wheel.torch} that the "
        "wheel requires"
    )
