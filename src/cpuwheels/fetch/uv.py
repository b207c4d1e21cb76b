"""Virtual environments with uv: this machine's interpreters, and where a venv has its packages."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import uv
from packaging.utils import canonicalize_name

from cpuwheels.core.capture import capture
from cpuwheels.core.concurrency import run_parallel
from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import BuildEnvironmentError, CommandError
from cpuwheels.core.filesystem import storage_errors, write_atomic
from cpuwheels.core.process import run
from cpuwheels.core.units import parse_size
from cpuwheels.core.usage import current_usage
from cpuwheels.fetch.requests import is_locked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cpuwheels.core.process import Completed

NEWEST_GLIBC = 40
"""Of the manylinux platforms 2_40 is the newest that uv knows."""


INDEXES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL")
"""Variables that name the index in place of PyPI."""

_NOT_PASSED = ("UV_PUBLISH_*", "*FIND_LINKS")
"""Of uv's variables, what an installation has no use for, and what is given explicitly."""

_LOGGED = "uv_installer=debug"
"""What uv logs besides its usual output: among others the packages that are not in its cache."""

_MISSING = re.compile(r"DEBUG Identified uncached distribution: ([^\s=@]+)==(\S+)")
_PRINTED = re.compile(r"Downloading (\S+) \((\d[\d.]*[KMGT]iB)\)")

_CONFIGURATIONS = ("~/.config/uv/uv.toml", "/etc/xdg/uv/uv.toml", "/etc/uv/uv.toml")
"""Where uv's configuration of the user and of the machine is, without that of a project."""


def uv_environment(*, project: bool = False) -> dict[str, str]:
    """Return the environment for uv: its own settings are the user's, but find-links are given explicitly.

    Without more uv would also read the ``uv.toml`` or ``pyproject.toml`` of the working folder and those above it. In a
    checkout of vLLM a commit would name the package index. In a locked run uv gets no network.

    Args:
        project: The working folder has a ``pyproject.toml`` of this program's, which uv is to read.
    """
    own = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("UV_") and not any(fnmatchcase(name, pattern) for pattern in _NOT_PASSED)
    }
    if not project and not own.keys() & {"UV_CONFIG_FILE", "UV_NO_CONFIG"}:
        found = next((path for name in _CONFIGURATIONS if (path := Path(name).expanduser()).is_file()), None)
        own |= {"UV_CONFIG_FILE": str(found)} if found else {"UV_NO_CONFIG": "1"}
    offline = {"UV_OFFLINE": "1"} if is_locked() else {}
    return closed_environment(own, network=True) | {"UV_NO_PROGRESS": "1", "VIRTUAL_ENV": ""} | offline


def site_packages(folder: Path) -> Path:
    """Return where the packages of a venv are."""
    return next((folder / "lib").glob("python3*/site-packages"))


def found_interpreters(pythons: Sequence[str]) -> dict[str, Path]:
    """Return this machine's interpreters for some Python versions, such as ``3.11``."""
    # Together, since uv starts a dozen programs for each of them that is not there.
    found = run_parallel([partial(_interpreter, version) for version in pythons], len(pythons))
    return {version: python for version, python in zip(pythons, found, strict=True) if python}


def _interpreter(version: str) -> Path | None:
    found = capture([uv.find_uv_bin(), "python", "find", "--no-project", "--system", version], env=uv_environment())
    return Path(found.output.strip()) if found.returncode == 0 else None


def compile_requirements(
    wanted: Iterable[str],
    without: Iterable[str],
    output: Path,
    *,
    python: str,
    options: Sequence[str | Path],
    log: Path,
) -> None:
    """Write a lock of what some requirements need.

    Args:
        wanted: Requirements (PEP 508).
        without: Names of packages that are left out of the lock.
        output: The lock; what uv reads lies next to it.
        python: Version of Python, such as ``3.11``.
        options: Further ones of ``uv pip compile``.
        log: uv's output.

    Raises:
        BuildEnvironmentError: No set of packages meets them.
    """
    asked, excluded = output.with_name(f"{output.stem}.in"), output.with_name(f"{output.stem}-excluded.txt")
    write_atomic(asked, "\n".join(wanted) + "\n")
    write_atomic(excluded, "\n".join(without) + "\n")
    command: list[str | Path] = [uv.find_uv_bin(), "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
    command += ["--python-version", python, "--excludes", excluded, *options, "--output-file", output, asked]
    try:
        run(command, log=log, env=uv_environment())
    except CommandError as error:
        raise BuildEnvironmentError(
            "no set of packages meets the wheel's requirements",
            where="Requires-Dist of the wheel",
            log=error.log,
            output=error.output,
            next_step="uv's output above says which; the package index may not be reachable, or lack a version",
        ) from error


def install_counted(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str],
    log: Path,
    sizes: Mapping[str, int] | None = None,
    check: bool = True,
) -> Completed:
    """Run a ``uv pip install`` that may fetch something, and count what it does; see `cpuwheels.core.usage`.

    uv logs which packages its cache does not have, but not the sizes of their files: only of a larger one it prints
    that, in tenths of a unit.

    Args:
        command: The whole command.
        env: uv's settings.
        log: uv's output.
        sizes: Bytes of the file of each package, by ``name==version``, as far as they are known.
        check: Whether a status other than 0 raises.

    Raises:
        CommandError: It fails while ``check`` is set.
    """
    missing: list[tuple[str, str]] = []
    printed: dict[str, int] = {}

    def note(line: str) -> None:
        if found := _MISSING.fullmatch(line):
            missing.append((canonicalize_name(found[1]), found[2]))
        elif found := _PRINTED.fullmatch(line):
            printed[canonicalize_name(found[1])] = parse_size(found[2])

    try:
        done = run(command, log=log, env={**env, "RUST_LOG": _LOGGED}, on_line=note, check=check)
    except CommandError as error:
        error.output = _without_log(error.output)
        raise
    if done.returncode == 0 and _asks_others(command, env):
        for package, version in missing:
            size = (sizes or {}).get(f"{package}=={version}", printed.get(package))
            current_usage().installer(package, size)
    return replace(done, output=_without_log(done.output))


def _asks_others(command: Sequence[str | Path], env: Mapping[str, str]) -> bool:
    """Return whether an installation can fetch from another machine."""
    if "UV_OFFLINE" in env:
        return False
    named = [str(place) for option, place in pairwise(command) if option in {"--find-links", "--default-index"}]
    named = named or [next(filter(None, map(env.get, INDEXES)), "https://")]
    return any(place.startswith(("http://", "https://")) for place in named)


def _without_log(output: str) -> str:
    return "\n".join(line for line in output.splitlines() if not line.startswith("DEBUG "))


def install_alone(wheel: Path, python: Path, log: Path) -> None:
    """Install a wheel, without its requirements, in place of one with the same name.

    uv does not use the user's cache, where the files of every wheel that was ever tested would stay, but one in the
    environment that is removed at once.

    Args:
        wheel: The wheel.
        python: Interpreter of the environment.
        log: uv's output.

    Raises:
        CommandError: It cannot be installed.
    """
    folder = python.parent.parent
    with storage_errors(folder), tempfile.TemporaryDirectory(prefix=".uv-", dir=folder) as cache:
        run_uv(
            [
                "pip",
                "install",
                "--offline",
                "--no-deps",
                "--reinstall",
                "--link-mode",
                "hardlink",
                "--cache-dir",
                cache,
                "--python",
                python,
                wheel,
            ],
            log,
        )


def install_cached(arguments: Sequence[str | Path], env: Mapping[str, str], log: Path) -> None:
    """Install what uv's cache has; the index is asked only if something is missing there.

    Args:
        arguments: Of ``uv pip install``.
        env: uv's settings.
        log: uv's output.

    Raises:
        CommandError: Something cannot be installed.
    """
    command: list[str | Path] = [uv.find_uv_bin(), "pip", "install"]
    if run([*command, "--offline", *arguments], log=log, env=env, check=False).returncode != 0:
        install_counted([*command, *arguments], env=env, log=log)


def run_uv(arguments: Sequence[str | Path], log: Path) -> None:
    """Run uv with the settings of a build.

    Raises:
        CommandError: It fails.
    """
    run([uv.find_uv_bin(), *arguments], log=log, env=uv_environment())
