"""The environment that a wheel is served from: the wheel, torch, and everything else it requires, locked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from packaging.version import Version
from uv import find_uv_bin

from cpuwheels.config.host import markers
from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import BuildEnvironmentError, LockedError
from cpuwheels.core.filesystem import storage_errors, write_atomic
from cpuwheels.core.process import run
from cpuwheels.environment.test_env import separate_environment
from cpuwheels.environment.torch_install import offer_environment
from cpuwheels.environment.wheel_install import install_wheel
from cpuwheels.fetch.uv import compile_requirements
from cpuwheels.verification.serving.requirements import (
    APART,
    lock_fits,
    moved_requirements,
    requirements_of,
    requires_dist,
    unmet,
)

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.environment.sealed_env import Environment
    from cpuwheels.wheel.kernel_wheel import KernelWheel

LOCKS = "serve"
"""Folder of the locks, below ``locks/``."""

_PLATFORM = "manylinux_2_31"
"""Some of vLLM's requirements (llguidance 1.7) have no wheels for an older glibc."""

_LOCKED = ["--no-deps", "--only-binary", ":all:", "--compile-bytecode"]
_COMPANIONS = ("torchaudio", "torchcodec", "torchvision")
"""Packages that vLLM requires without a version, and that PyTorch's index has for each torch; text models need none."""


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
    about = markers(context.target, environment.runs_python)
    lines = list(wheel.requires)
    own = context.root / "locks" / LOCKS / own_name(context.target.id, wheel.version, environment.runs_python)
    if relock:
        _resolve(context, lines, environment, own)
        context.reporter.info(f"written: {own}")
    lock, name = _lock(context, own, lines, about, environment, work, locked=locked)
    python = separate_environment(environment, work / "venv", lock, context.logs, options=_LOCKED)
    if not locked and not environment.debian:
        _install_companions(environment, python, context.logs / "serve-environment.log")
    site = install_wheel(wheel.path, python, None, context.logs)
    missing = unmet(site, about)
    if environment.debian:
        missing = [one for one in missing if one.name != "torch"]  # announced when it was chosen
    if other := [f"{one.requirement} (required by {one.by})" for one in missing if one.name not in APART]:
        raise BuildEnvironmentError(
            f"the environment lacks {', '.join(other)}",
            where=lock,
            next_step=f"resolve the requirements anew: nox -s serve-{context.target.id} -- --relock",
        )
    lacks = tuple(dict.fromkeys(one.requirement for one in missing))
    if lacks:
        why = "they are not locked" if locked else "there is no CPU build of them where torch comes from"
        context.reporter.announce(f"served without {', '.join(lacks)}: {why}")
    moved = tuple(moved_requirements(lines, about))
    if moved:
        context.reporter.announce(f"a plain installation lacks {', '.join(moved)}, which upstream requires by URL")
    return ServingEnvironment(
        python=python,
        site=site,
        version=environment.runs_python,
        torch=environment.runs_torch,
        lock=name,
        lock_sha256=file_digest(lock),
        lacks=lacks,
        moved=moved,
    )


def own_name(target: str, version: str, python: str) -> str:
    """Return the file name of the project's lock for a wheel: what it requires can depend on the Python version."""
    return f"{target}-{Version(version).public}-py{python}.txt"


def _lock(
    context: BuildContext,
    own: Path,
    lines: list[str],
    about: dict[str, str],
    environment: Environment,
    work: Path,
    *,
    locked: bool,
) -> tuple[Path, str]:
    """Return the lock to install, and what it is: the project's own if it fits, else one that is made now."""
    misfits = lock_fits(own.read_text(encoding="utf-8"), requirements_of(lines, about)) if own.is_file() else []
    if own.is_file() and not misfits:
        return own, own.relative_to(context.root).as_posix()
    why = f"{own.name} does not have {', '.join(misfits)}" if misfits else f"there is no {own.name}"
    if locked:
        raise LockedError(
            f"the wheel's requirements are not locked: {why}",
            where=own,
            next_step=f"write it with nox -s serve-{context.target.id} -- --relock, or serve without --locked",
        )
    context.reporter.announce(f"requirements are resolved now, from what the package index has today: {why}")
    made = work / "requirements.txt"
    _resolve(context, lines, environment, made)
    return made, f"resolved on {datetime.now(UTC).date().isoformat()}"


def _resolve(context: BuildContext, lines: list[str], environment: Environment, lock: Path) -> None:
    """Write a lock of everything that a wheel and torch require, but for what is in `APART`."""
    torch = environment.debian.torch_requirements() if environment.debian else _of_wheel(environment)
    resolved = context.logs / "serve-requirements.txt"
    platform = [f"--python-platform={context.target.machine}-{_PLATFORM}"] if context.target.system == "Linux" else []
    compile_requirements(
        [*lines, *torch],
        APART,
        resolved,
        python=environment.runs_python,
        options=["--generate-hashes", "--only-binary", ":all:", *platform],
        log=context.logs / "serve-environment.log",
    )
    with storage_errors(lock.parent):
        lock.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(lock, resolved.read_text(encoding="utf-8"))


def _of_wheel(environment: Environment) -> list[str]:
    torch = next(environment.site_packages.glob("torch-*.dist-info")) / "METADATA"
    return requires_dist(torch.read_text(encoding="utf-8"))


def _install_companions(environment: Environment, python: Path, log: Path) -> None:
    """Install the packages that belong to torch from torch's own place, if they are there; they are not locked."""
    command: list[str | Path] = [find_uv_bin(), "pip", "install", "--python", python, "--only-binary", ":all:"]
    command += environment.offer().uv_options()
    for name in _COMPANIONS:
        # The installed torch decides which version fits.
        held = [*command, "--dry-run", name, f"torch=={environment.torch_version}"]
        plan: list[str] = []
        if run(held, log=log, env=offer_environment(), on_line=plan.append, check=False).returncode == 0:
            version = next((line.partition("==")[2] for line in plan if line.startswith(f" + {name}==")), "")
            exact = ["--no-deps", "--compile-bytecode", f"{name}=={version}"]
            run([*command, *exact], log=log, env=offer_environment(), check=not version)
