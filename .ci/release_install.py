"""Installing this project's wheel as people do, where no checkout is, and using it in an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import uv
from release_build import SHARED, ReleaseError, require_files, run

if TYPE_CHECKING:
    from pathlib import Path

CHECKOUT_ERROR = 50
MANUAL = "man1/cpuwheels.1"


def install(wheel: Path, folder: Path, lock: Path) -> Path:
    """Install a wheel and its locked requirements into a new environment and return its command.

    Raises:
        ReleaseError: It cannot be installed, or the lock lacks something that it requires.
    """
    tool = uv.find_uv_bin()
    run([tool, "venv", "--quiet", "--python", sys.executable, folder], wheel.parent)
    into: list[str | Path] = [tool, "pip", "install", "--quiet", "--python", folder]
    run([*into, "--require-hashes", "-r", lock], wheel.parent)
    run([*into, "--no-deps", wheel], wheel.parent)
    run([tool, "pip", "check", "--quiet", "--python", folder], wheel.parent)
    return folder / "bin" / "cpuwheels"


def smoke_test(wheel: Path, version: str, source: Path, folder: Path) -> None:
    """Install the wheel where no checkout is, compare the project's files in it, and run commands.

    Args:
        wheel: The wheel.
        version: Its version.
        source: The clone that it was built from.
        folder: For an environment and a working folder.

    Raises:
        ReleaseError: A file is missing or other than the clone's, or a command does not do what it should.
    """
    command = install(wheel, folder / "venv", source / "locks" / "run.txt")
    (data,) = (folder / "venv" / "lib").glob("python*/site-packages/cpuwheels/data")
    require_files(data, source)
    require_shared(folder / "venv", source)
    use([command], version, folder / "work")
    require_files(data, source)


def require_shared(environment: Path, source: Path) -> None:
    """Check that an environment has the manual page and the completion, where shells and man look for them.

    Raises:
        ReleaseError: One of them is missing or differs.
    """
    for path in sorted((source / SHARED).rglob("*")):
        there = environment / path.relative_to(source)
        if path.is_file() and not (there.is_file() and there.read_bytes() == path.read_bytes()):
            raise ReleaseError(f"the wheel does not install {path.relative_to(source)}")


def use(command: list[str | Path], version: str, work: Path, **variables: str) -> None:
    """Run commands in an empty folder.

    Args:
        command: The program, and what is in front of it.
        version: That it has to have.
        work: The folder, which must not be there yet.
        **variables: Of the environment.

    Raises:
        ReleaseError: One does not do what it should, or leaves something in the folder.
    """
    work.mkdir()
    answers = {
        ("--version",): (0, f"cpuwheels {version}\n"),
        ("--help",): (0, "Usage: cpuwheels"),
        ("matrix",): (0, "x86: "),
        ("lock",): (CHECKOUT_ERROR, "in a checkout"),
    }
    hidden = ("PYTHONPATH", "VIRTUAL_ENV")
    env = {name: value for name, value in os.environ.items() if name not in hidden} | variables
    for words, (code, text) in answers.items():
        line = [*map(str, command), *words]
        done = subprocess.run(line, cwd=work, env=env, capture_output=True, text=True, check=False)
        if done.returncode != code or text not in done.stdout + done.stderr:
            raise ReleaseError(f"{' '.join(line)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    if left := sorted(path.name for path in work.iterdir()):
        raise ReleaseError(f"the commands left {', '.join(left)} in the folder in which they were run")


def use_with_uvx(wheel: Path, version: str, folder: Path) -> None:
    """Run the wheel's program with uvx, and with the newest packages that it accepts.

    Raises:
        ReleaseError: It does not run.
    """
    folder.mkdir()
    command = [uv.find_uv_bin(), "tool", "run", "--quiet", "--python", sys.executable, "--from", wheel, "cpuwheels"]
    use(command, version, folder / "work", UV_TOOL_DIR=str(folder / "tools"))


def use_with_pipx(wheel: Path, version: str, folder: Path) -> None:
    """Install the wheel with pipx, with the newest packages that it accepts, and run its program.

    Raises:
        ReleaseError: It cannot be installed or does not run, or the manual page is not where man looks.
    """
    folder.mkdir()
    places = {"PIPX_HOME": "home", "PIPX_BIN_DIR": "bin", "PIPX_MAN_DIR": "man"}
    variables = {name: str(folder / place) for name, place in places.items()}
    run([sys.executable, "-m", "pipx", "install", "--python", sys.executable, wheel], folder, **variables)
    use([folder / "bin" / "cpuwheels"], version, folder / "work")
    if not (folder / "man" / MANUAL).is_file():
        raise ReleaseError(f"pipx found no manual page {MANUAL} in the wheel")
