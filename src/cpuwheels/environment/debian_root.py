"""Python and torch of an unpacked Debian root.

A root for this kind of machine runs as it is, without chroot or container: a script starts the root's dynamic loader,
which takes every library from the root, whichever C library this machine has. Python takes the script for itself
(``sys.executable``), so the script can be used wherever an interpreter is named by its path.
"""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass
from importlib.metadata import Distribution
from typing import TYPE_CHECKING

from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import CommandError, ToolchainError
from cpuwheels.core.filesystem import remove_tree, storage_errors
from cpuwheels.core.process import run
from cpuwheels.fetch.uv import site_packages

if TYPE_CHECKING:
    from pathlib import Path

_PACKAGES = "usr/lib/python3/dist-packages"
_LOADER = "usr/lib/*/ld-linux*.so.*"
_OF_TORCH = ("torch", "torchgen", "functorch")

# Files are named in it by the path that they will have.
_COMPILE = """\
import compileall, py_compile, sys
fresh, final, *folders = sys.argv[1:]
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
for folder in folders:
    compileall.compile_dir(folder, quiet=2, invalidation_mode=mode, stripdir=fresh, prependdir=final)
"""


@dataclass(frozen=True)
class DebianRoot:
    """An unpacked root with Python and torch.

    Attributes:
        folder: The root.
        python: Its interpreter.
        torch_version: Of its torch, such as ``2.14.1+debian``.
    """

    folder: Path
    python: Path
    torch_version: str

    @property
    def python_version(self) -> str:
        """Version of its Python, such as ``3.14``."""
        return self.python.name.removeprefix("python")

    @property
    def packages(self) -> Path:
        """Where its Python packages are."""
        return self.folder / _PACKAGES

    def torch_requirements(self) -> list[str]:
        """Return what its torch requires, as ``Requires-Dist`` of the metadata has it."""
        return Distribution.at(self._about_torch()).requires or []

    def _about_torch(self) -> Path:
        return next(self.packages.glob("torch-*.*-info"))

    def command(self, executable: Path) -> list[str | Path]:
        """Return what starts its Python on this machine.

        Args:
            executable: What Python takes for its own path.

        Raises:
            ToolchainError: The root has no dynamic loader.
        """
        return native_command(self.folder, self.python, executable)

    def environment(self, folder: Path, *, packages: bool) -> Path:
        """Make a virtual environment that runs on this machine, into which wheels can be installed.

        Args:
            folder: The environment; emptied first.
            packages: Whether it finds all of the root's packages, or torch alone.

        Returns:
            Its interpreter.

        Raises:
            StoreError: It cannot be written.
            ToolchainError: The root has no dynamic loader.
        """
        write_environment(folder, self.python, packages=packages)
        python = folder / "bin" / "python"
        write_interpreter(python, self.command(python))
        with storage_errors(folder):
            if not packages:
                site, about = site_packages(folder), self._about_torch()
                for name in _OF_TORCH:
                    (site / name).symlink_to(self.packages / name)
                shutil.copytree(about, site / about.name)  # uv does not follow links to such folders
        return python


def read_root(folder: Path, target: str, lock: str) -> DebianRoot:
    """Return what an unpacked root holds.

    Args:
        folder: The root.
        target: Target id, for messages.
        lock: Name of the root's lock, for messages.

    Raises:
        ToolchainError: It has no Python, or no torch.
    """
    link = folder / "usr" / "bin" / "python3"
    if not link.is_file():
        raise lacking(target, lock, "Python", link, "python3")
    about = next((folder / _PACKAGES).glob("torch-*.*-info"), None)
    if about is None:
        raise lacking(target, lock, "torch", folder / _PACKAGES, "python3-torch")
    python = link.with_name(link.readlink().name) if link.is_symlink() else link
    return DebianRoot(folder, python, about.name.split("-")[1].removesuffix(".dist"))


def lacking(target: str, lock: str, what: str, where: Path, packages: str) -> ToolchainError:
    """Return the error for something that a root lacks.

    Args:
        target: Target id.
        lock: Name of the root's lock.
        what: What is missing.
        where: Where it was looked for.
        packages: Debian packages that have it.
    """
    return ToolchainError(
        f"the root of {target} has no {what}",
        where=where,
        next_step=f"add {packages} to locks/{lock}.yaml and run `nox -s lock`",
    )


def native_command(root: Path, python: Path, executable: Path) -> list[str | Path]:
    """Return what starts a root's Python by the root's own dynamic loader.

    Args:
        root: The root; of this kind of machine.
        python: Its interpreter.
        executable: What Python takes for its own path.

    Raises:
        ToolchainError: The root has no dynamic loader.
    """
    loader = next(root.glob(_LOADER), None)
    if loader is None:
        raise ToolchainError(
            "the root has no dynamic loader", where=root / _LOADER, next_step="add libc6 to its lock: `nox -s lock`"
        )
    libraries = f"{loader.parent}:{root / 'usr' / 'lib'}"
    return [loader, "--inhibit-cache", "--library-path", libraries, "--argv0", executable, python]


def write_environment(folder: Path, python: Path, *, packages: bool) -> None:
    """Write a virtual environment without an interpreter, as the documentation of Python's venv describes it.

    Args:
        folder: The environment; emptied first.
        python: The interpreter of the root; the root's packages are found below its ``home``.
        packages: Whether they are found.

    Raises:
        StoreError: It cannot be written.
    """
    with storage_errors(folder.parent):
        remove_tree(folder)
        (folder / "lib" / python.name / "site-packages").mkdir(parents=True)
        (folder / "bin").mkdir()
        (folder / "pyvenv.cfg").write_text(
            f"home = {python.parent}\ninclude-system-site-packages = {str(packages).lower()}\n"
            f"version = {python.name.removeprefix('python')}\n",
            encoding="utf-8",
        )


def write_interpreter(script: Path, command: list[str | Path]) -> None:
    """Write a script that stands for an interpreter.

    Raises:
        OSError: It cannot be written.
    """
    script.write_text(f'#!/bin/sh\nexec {shlex.join(map(str, command))} "$@"\n', encoding="utf-8")
    script.chmod(0o755)


def compile_root(fresh: Path, final: Path, log: Path) -> None:
    """Write the bytecode of a root's Python and packages; Debian makes it when a package is installed.

    Args:
        fresh: The root, complete but for it.
        final: Where it will be; what ``unpacked_root`` gives to a finisher.
        log: Log file of the step.

    Raises:
        ToolchainError: Its Python does not run on this machine.
    """
    python = (fresh / "usr" / "bin" / "python3").resolve()
    folders = [fresh / "usr" / "lib" / python.name, fresh / _PACKAGES]
    command = native_command(fresh, python, python)
    try:
        run([*command, "-I", "-c", _COMPILE, fresh, final, *folders], log=log, env=closed_environment())
    except CommandError as error:
        raise ToolchainError(
            f"Debian's Python does not run on this machine: {error.what}",
            where=final,
            log=log,
            output=error.output,
            next_step="a library that is missing is left out in the root's lock",
        ) from error
