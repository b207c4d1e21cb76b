"""The environments that a finished wheel is installed into: new ones, with the torch of its build."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.utils import parse_wheel_filename

from cpuwheels.core.errors import BuildEnvironmentError, CommandError
from cpuwheels.core.filesystem import remove_tree, storage_errors, write_atomic
from cpuwheels.environment.bytecode import link_bytecode
from cpuwheels.environment.linked_install import install_one
from cpuwheels.environment.torch_install import offer_environment
from cpuwheels.fetch.uv import install_cached, run_uv, site_packages, uv_environment

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cpuwheels.environment.sealed_env import Environment

_LAYER = "build-environment.pth"
_LOG = "runtime-environment.log"


def layered_environment(environment: Environment, folder: Path, logs: Path) -> Path:
    """Make an empty venv that finds torch, and what torch needs, in the build environment or Debian's root.

    What is installed goes into the new venv alone. It is made and removed at once, where a copy of torch's
    files would take longer than everything that is then done with them.

    Args:
        environment: The build environment; only read.
        folder: The venv; emptied first.
        logs: Folder for uv's output.

    Returns:
        The venv's interpreter.

    Raises:
        BuildEnvironmentError: It could not be made.
    """
    if environment.debian:
        return environment.debian.environment(folder, packages=True)
    python = new_environment(environment, folder, logs)
    with storage_errors(folder):
        (site_packages(folder) / _LAYER).write_text(f"{environment.site_packages}\n", encoding="utf-8")
    return python


def separate_environment(
    environment: Environment, folder: Path, lock: Path, logs: Path, options: Sequence[str] = ()
) -> Path:
    """Make a venv of its own with the same torch and otherwise only locked packages.

    Args:
        environment: The build environment; only read.
        folder: The venv; emptied first.
        lock: Requirements file with the packages' versions and hashes.
        logs: Folder for uv's output.
        options: More options of ``uv pip install`` for those packages.

    Returns:
        The venv's interpreter.

    Raises:
        BuildEnvironmentError: It could not be made.
    """
    log = logs / _LOG
    python = new_environment(environment, folder, logs)
    try:
        install_cached(["--python", python, "--require-hashes", *options, "-r", lock], uv_environment(), log)
        _install_torch(environment, python, log)
    except CommandError as error:
        raise _refusal(error) from error
    _share_bytecode(environment, folder)
    return python


def complete_environment(
    environment: Environment, wheel: Path, folder: Path, logs: Path, kept: Path | None = None, *, sdists: bool = False
) -> Path:
    """Make a venv of its own with a wheel, the same torch, and everything else that the wheel requires.

    Who made the wheel decides what that is, so only wheels are installed unless it is asked for: a source distribution
    runs its own code when it is installed.

    Args:
        environment: The build environment; only read.
        wheel: The wheel.
        folder: The venv; emptied first.
        logs: Folder for uv's output.
        kept: As in `install_one`.
        sdists: Whether requirements without a wheel are built from source.

    Returns:
        The venv's interpreter.

    Raises:
        BuildEnvironmentError: It could not be made.
        UnusableWheelError: The wheel cannot be installed.
    """
    log = logs / _LOG
    form: list[str | Path] = [] if sdists else ["--only-binary", ":all:"]
    name, version, _, _ = parse_wheel_filename(wheel.name)
    python = new_environment(environment, folder, logs)
    try:
        _install_torch_and_needs(environment, python, log)
        install_one(wheel, python, log, kept)
        required = [*_same_torch(environment, log), f"{name}=={version}"]
        install_cached(["--python", python, *form, *required], uv_environment(), log)
    except CommandError as error:
        refusal = _refusal(error)
        if not sdists:
            refusal.next_step += "; a requirement that has no wheel is installed with --allow-sdists"
        raise refusal from error
    _share_bytecode(environment, folder)
    return python


def new_environment(environment: Environment, folder: Path, logs: Path) -> Path:
    """Make a venv with the Python of a build environment and nothing in it, and return its interpreter.

    With Debian's torch it is Debian's Python, and torch is in it.

    Raises:
        BuildEnvironmentError: It could not be made.
    """
    if environment.debian:
        return environment.debian.environment(folder, packages=False)
    with storage_errors(folder.parent):
        remove_tree(folder)
    try:
        run_uv(["venv", "--quiet", "--python", environment.python.resolve(), folder], logs / _LOG)
    except CommandError as error:
        raise _refusal(error) from error
    return folder / "bin" / "python"


def install_with_torch(environment: Environment, wheel: Path, python: Path, logs: Path, *, requirements: bool) -> None:
    """Install a wheel in place of one with the same name, with the torch of a build environment.

    Args:
        environment: The build environment; only read.
        wheel: The wheel.
        python: Interpreter of the venv.
        logs: Folder for uv's output.
        requirements: Whether what the wheel requires is installed, too.

    Raises:
        BuildEnvironmentError: Something cannot be installed.
    """
    log = logs / _LOG
    try:
        _install_torch_and_needs(environment, python, log)
        rest = _same_torch(environment, log) if requirements else ["--no-deps"]
        install_cached(["--python", python, "--reinstall-package", "vllm", *rest, wheel], uv_environment(), log)
    except CommandError as error:
        raise _refusal(error) from error


def _share_bytecode(environment: Environment, folder: Path) -> None:
    """Link a build environment's bytecode; Debian's torch has its own, and the root behind its link is only read."""
    if environment.debian is None:
        with storage_errors(folder):
            link_bytecode(environment.site_packages, site_packages(folder))


def _install_torch_and_needs(environment: Environment, python: Path, log: Path) -> None:
    if environment.debian:
        install_cached(["--python", python, *environment.debian.torch_requirements()], uv_environment(), log)
        return
    _install_torch(environment, python, log)
    install_cached(["--python", python, f"torch=={environment.torch_version}"], uv_environment(), log)


def _install_torch(environment: Environment, python: Path, log: Path) -> None:
    """Install a build environment's torch from where it came from, without what torch itself needs."""
    if environment.debian:
        return
    torch = ["--no-deps", *environment.offer().uv_options(), f"torch=={environment.torch_version}"]
    install_cached(["--python", python, *torch], offer_environment(), log)


def _same_torch(environment: Environment, log: Path) -> list[str | Path]:
    """Return the options under which nothing that is installed brings another torch along."""
    constraint = log.with_name("torch-constraint.txt")
    write_atomic(constraint, f"torch=={environment.runs_torch}\n")
    return ["--overrides" if environment.debian else "--constraint", constraint]


def _refusal(error: CommandError) -> BuildEnvironmentError:
    return BuildEnvironmentError(
        "the environment to test the wheel in could not be made",
        where=error.where,
        log=error.log,
        output=error.output,
        next_step="make the package index and the place torch came from reachable again",
    )
