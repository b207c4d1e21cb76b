"""Running the kernel tests in ``tests/parity`` against an installed wheel, one process for each library."""

from __future__ import annotations

import os
import zipfile
from email.parser import HeaderParser
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.version import Version
from uv import find_uv_bin

from cpuwheels.errors import CommandError, EnvironmentError_, ParityError, WheelError
from cpuwheels.process import capture, closed_environment, run

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from cpuwheels.console import Reporter
    from cpuwheels.model.matrix import Target

LIBRARY_VARIABLE = "CPUWHEELS_LIBRARY"
"""Path of the kernel library that a test process loads."""


def wheel_torch(wheel: Path, markers: Mapping[str, str]) -> str:
    """Return the torch version, without local label, that a vLLM wheel requires.

    Raises:
        WheelError: It is not a wheel, or does not require exactly one version of torch.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            metadata = HeaderParser().parsestr(archive.read(name).decode())
    except (OSError, zipfile.BadZipFile, StopIteration) as error:
        raise WheelError(
            f"{wheel} is not a wheel", where="--wheel", next_step="give the path of a vLLM wheel"
        ) from error
    for text in metadata.get_all("Requires-Dist", []):
        requirement = Requirement(text)
        applies = requirement.marker is None or requirement.marker.evaluate(dict(markers) | {"extra": ""})
        exact = [spec.version for spec in requirement.specifier if spec.operator == "==" and "*" not in spec.version]
        if requirement.name == "torch" and applies and exact:
            return Version(exact[0]).public
    raise WheelError(
        f"{wheel.name} does not require one version of torch",
        where=wheel,
        next_step="give a vLLM wheel for this target's processor",
    )


def run_parity(
    wheel: Path,
    target: Target,
    *,
    python: Path,
    lock: Path,
    tests: Path,
    features: Collection[str],
    reporter: Reporter,
    logs: Path,
) -> None:
    """Install a wheel and run the kernel tests on each library that this CPU can run.

    Args:
        wheel: The wheel.
        target: Names the libraries and the CPU features they need.
        python: Interpreter of a fresh environment with the right torch.
        lock: Requirements file of the tests' own needs.
        tests: Folder of the tests.
        features: What this machine's CPU has.
        reporter: Told of each library's result.
        logs: Folder for the logs.

    Raises:
        EnvironmentError_: The wheel or the tests' needs cannot be installed.
        WheelError: A library is not in the wheel.
        ParityError: A kernel gives a wrong result, or no library could be run.
    """
    site = _install(wheel, python, lock, logs / "parity-install.log")
    ran, failed = 0, []
    for library in target.libraries:
        if lacking := sorted(set(library.needs) - set(features)):
            reporter.announce(f"{library.name} was not run: this CPU lacks {', '.join(lacking)}")
            continue
        path = site / "vllm" / f"{library.name}.abi3.so"
        if not path.is_file():
            raise WheelError(
                f"{wheel.name} has no vllm/{library.name}.abi3.so",
                where=wheel,
                next_step="give a wheel that was built for this target",
            )
        log = logs / f"parity-{library.name}.log"
        done = run(
            [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--confcutdir", tests, tests],
            log=log, env=closed_environment({LIBRARY_VARIABLE: str(path)}), check=False,
        )  # fmt: skip
        ran += 1
        reporter.info(f"{library.name}: {done.output.splitlines()[-1] if done.output else 'no output'}")
        if done.returncode != 0:
            failed.append((library.name, done.output, log))
    if failed:
        name, output, log = failed[0]
        raise ParityError(
            f"kernels of {', '.join(name for name, _, _ in failed)} do not agree with torch",
            where=wheel, log=log, output=output, next_step=f"read the log of {name}; do not publish this wheel",
        )  # fmt: skip
    if not ran:
        raise ParityError(
            f"no library of {wheel.name} can run on this CPU",
            where="this machine",
            next_step=f"run it on a CPU with {', '.join(target.libraries[-1].needs)}",
        )


def _install(wheel: Path, python: Path, lock: Path, log: Path) -> Path:
    install: list[str | Path] = [find_uv_bin(), "pip", "install", "--quiet", "--python", python]
    env = closed_environment(network=True)
    try:
        if run([*install, "--offline", "--require-hashes", "-r", lock], log=log, env=env, check=False).returncode:
            run([*install, "--require-hashes", "-r", lock], log=log, env=env)
        run([*install, "--offline", "--no-deps", wheel], log=log, env=env)
    except CommandError as error:
        raise EnvironmentError_(
            f"{wheel.name} and the tests' needs cannot be installed",
            where=error.where, log=log, output=error.output,
            next_step="check that the package index is reachable (UV_DEFAULT_INDEX names another)",
        ) from error  # fmt: skip
    return python.parent.parent / "lib" / f"python{_minor(python)}" / "site-packages"


def _minor(python: Path) -> str:
    return capture([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).output.strip()
