"""The environment that a wheel is served from: the wheel, torch, and everything else it requires, locked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from uv import find_uv_bin

from cpuwheels.config.host import markers
from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import BuildEnvironmentError
from cpuwheels.core.process import run
from cpuwheels.environment.test_env import separate_environment
from cpuwheels.environment.torch_install import offer_environment
from cpuwheels.environment.wheel_install import install_wheel
from cpuwheels.verification.serving.locks import Lock, Needs, choose_lock
from cpuwheels.verification.serving.requirements import APART, COMPANIONS, moved_requirements, requires_dist, unmet

if TYPE_CHECKING:
    from cpuwheels.config.context import BuildContext
    from cpuwheels.environment.sealed_env import Environment
    from cpuwheels.verification.emulation.cpus import Cpu
    from cpuwheels.verification.emulation.machine import EmulatedMachine
    from cpuwheels.wheel.kernel_wheel import KernelWheel

_LOCKED = ("--no-deps", "--only-binary", ":all:")


@dataclass(frozen=True)
class ServingEnvironment:
    """A fresh environment with a wheel and what it requires.

    Attributes:
        python: Its interpreter.
        site: Where its packages are.
        version: Of Python, such as ``3.11``.
        torch: Version of its torch, local label included.
        lock: Name of the lock, or how the requirements were resolved.
        lock_sha256: Digest of the requirements with their hashes.
        lacks: What the wheel requires but is missing.
        moved: What upstream requires by URL, and a plain installation of the wheel does not install.
    """

    python: Path
    site: Path
    version: str
    torch: str
    lock: str
    lock_sha256: str
    lacks: tuple[str, ...]
    moved: tuple[str, ...]


def serving_environment(
    context: BuildContext, environment: Environment, wheel: KernelWheel, work: Path, *, locked: bool, relock: bool
) -> ServingEnvironment:
    """Make the environment.

    Args:
        context: The run.
        environment: With the torch that the wheel requires; only read.
        wheel: What is served.
        work: Folder for what is needed while it is served only.
        locked: Refuse requirements that no lock of the project has.
        relock: Resolve the requirements anew and write the project's lock.

    Raises:
        LockedError: ``locked``, and the project has no lock that fits.
        BuildEnvironmentError: The requirements cannot be fetched.
        UnusableWheelError: The wheel cannot be installed.
    """
    torch = environment.debian.torch_requirements() if environment.debian else _of_wheel(environment)
    needs = Needs(wheel.version, wheel.requires, tuple(torch), environment.runs_python)
    lock = choose_lock(context, needs, work, locked=locked, relock=relock)
    options = [*_LOCKED, "--compile-bytecode"]
    python = separate_environment(environment, work / "venv", lock.path, context.logs, options=options)
    if not locked and not environment.debian:
        _install_companions(environment, python, context.logs / "serve-environment.log")
    site = install_wheel(wheel.path, python, None, context.logs)
    debian = environment.debian is not None
    return _complete(context, python, site, needs, lock, environment.runs_torch, locked=locked, debian=debian)


def emulated_environment(
    context: BuildContext, machine: EmulatedMachine, wheel: KernelWheel, work: Path, *, locked: bool, relock: bool
) -> tuple[ServingEnvironment, tuple[Cpu, ...]]:
    """Make the environment on an emulated machine, with an interpreter for each of its CPUs.

    Its own interpreter is that of the last CPU, the plainest, which is the fastest to emulate. Bytecode is written when
    a module is first imported: compiling everything would take longer than all that is then done.

    Args:
        context: The run.
        machine: The emulated machine; only read.
        wheel: What is served.
        work: Folder for what is needed while it is served only.
        locked: Refuse requirements that no lock of the project has.
        relock: Resolve the requirements anew and write the project's lock.

    Raises:
        LockedError: ``locked``, and the project has no lock that fits.
        BuildEnvironmentError: The requirements cannot be fetched.
        UnusableWheelError: The wheel cannot be installed.
    """
    root = machine.debian
    needs = Needs(wheel.version, wheel.requires, tuple(root.torch_requirements()), root.python_version)
    lock = choose_lock(context, needs, work, locked=locked, relock=relock)
    cpus = machine.environment(work / "venv", bytecode=work / "bytecode")
    python = Path(cpus[-1].python[0])
    site = install_wheel(wheel.path, python, lock.path, context.logs, options=_LOCKED)
    return _complete(context, python, site, needs, lock, machine.torch_version, locked=locked, debian=True), cpus


def _complete(
    context: BuildContext, python: Path, site: Path, needs: Needs, lock: Lock, torch: str, *, locked: bool, debian: bool
) -> ServingEnvironment:
    """Return an environment with everything installed, and announce what is missing.

    Raises:
        BuildEnvironmentError: A requirement is missing that has to be there.
    """
    about = markers(context.target, needs.python)
    missing = unmet(site, about)
    if debian:
        missing = [one for one in missing if one.name != "torch"]  # announced when it was chosen
    if other := [f"{one.requirement} (required by {one.by})" for one in missing if one.name not in APART]:
        raise BuildEnvironmentError(
            f"the environment lacks {', '.join(other)}",
            where=lock.path,
            next_step=f"resolve the requirements anew: nox -s serve-{context.target.id} -- --relock",
        )
    lacks = tuple(dict.fromkeys(one.requirement for one in missing))
    if lacks:
        why = "they are not locked" if locked else "there is no CPU build of them where torch comes from"
        context.reporter.announce(f"served without {', '.join(lacks)}: {why}")
    moved = tuple(moved_requirements(needs.wheel, about))
    if moved:
        context.reporter.announce(f"a plain installation lacks {', '.join(moved)}, which upstream requires by URL")
    return ServingEnvironment(
        python=python,
        site=site,
        version=needs.python,
        torch=torch,
        lock=lock.name,
        lock_sha256=file_digest(lock.path),
        lacks=lacks,
        moved=moved,
    )


def _of_wheel(environment: Environment) -> list[str]:
    torch = next(environment.site_packages.glob("torch-*.dist-info")) / "METADATA"
    return requires_dist(torch.read_text(encoding="utf-8"))


def _install_companions(environment: Environment, python: Path, log: Path) -> None:
    """Install the packages that belong to torch from torch's own place, if they are there; they are not locked.

    Text models need none of them.
    """
    command: list[str | Path] = [find_uv_bin(), "pip", "install", "--python", python, "--only-binary", ":all:"]
    command += environment.offer().uv_options()
    for name in COMPANIONS:
        # The installed torch decides which version fits.
        held = [*command, "--dry-run", name, f"torch=={environment.torch_version}"]
        plan: list[str] = []
        if run(held, log=log, env=offer_environment(), on_line=plan.append, check=False).returncode == 0:
            version = next((line.partition("==")[2] for line in plan if line.startswith(f" + {name}==")), "")
            exact = ["--no-deps", "--compile-bytecode", f"{name}=={version}"]
            run([*command, *exact], log=log, env=offer_environment(), check=not version)
