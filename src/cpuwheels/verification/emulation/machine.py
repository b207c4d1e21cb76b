"""A whole emulated machine: a Debian root with Python and torch, its bytecode, and the emulator that runs it.

Nothing is installed and no kernel setting (binfmt) is needed: a script starts the emulator with the root's Python.
Python takes the script for itself (``sys.executable``), so it can be used wherever an interpreter is named by its
path, and what it starts by that name is emulated too.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.core.digests import make_key
from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import CommandError, TargetNotBuiltError, ToolchainError
from cpuwheels.core.filesystem import link_or_copy, storage_errors
from cpuwheels.core.process import run
from cpuwheels.environment.debian_root import DebianRoot, lacking, read_root, write_environment, write_interpreter
from cpuwheels.environment.torch_debian import ROOTS
from cpuwheels.fetch.debian.mirrors import debian_mirrors
from cpuwheels.fetch.debian.root import unpacked_root
from cpuwheels.sandbox.view import program_places
from cpuwheels.verification.emulation.cpus import Cpu, emulated_features
from cpuwheels.verification.emulation.qemu import find_emulator

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.matrix import Target

BYTECODE = "bytecode"
_RECIPE = 1
"""Raised when the same root would give other bytecode."""

_IMPORTED = ("torch", "numpy", "pytest", "hypothesis.strategies", "packaging.version")
"""What the checks import; the plug-ins that come with pytest are imported when it reads its settings."""

_IMPORT = """\
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
import _pytest.config
_pytest.config.get_config()
"""


@dataclass(frozen=True)
class EmulatedMachine:
    """A machine of a target's kind.

    Attributes:
        machine: As the kernel names it.
        program: The emulator.
        root: The unpacked root.
        python: The root's interpreter.
        torch_version: Of the root's torch, such as ``2.14.1+debian``.
        features: Its CPUs, as QEMU names them, the best first, and the features of each.
        tried: Library → the CPU that it is tested on.
        bytecode: Folder with the bytecode of what the checks import.
    """

    machine: str
    program: Path
    root: Path
    python: Path
    torch_version: str
    features: Mapping[str, frozenset[str]]
    tried: Mapping[str, str]
    bytecode: Path

    @property
    def debian(self) -> DebianRoot:
        """The root, as Python and torch are in it."""
        return DebianRoot(self.root, self.python, self.torch_version)

    @property
    def places(self) -> tuple[Path, ...]:
        """What has to be readable so that its interpreters run."""
        return (*program_places(self.program), self.root, self.bytecode)

    def command(self, cpu: str, executable: Path | None = None, bytecode: Path | None = None) -> list[str | Path]:
        """Return what starts the root's Python on a CPU.

        Args:
            cpu: As QEMU names it.
            executable: What Python takes for its own path; the root's interpreter if not given.
            bytecode: Folder of the bytecode, if not the store's.
        """
        return [
            self.program,
            "-cpu",
            cpu,
            "-L",
            self.root,
            "-0",
            executable or self.python,
            self.python,
            "-X",
            f"pycache_prefix={bytecode or self.bytecode}",
        ]

    def environment(self, folder: Path, bytecode: Path | None = None) -> tuple[Cpu, ...]:
        """Make a virtual environment with an interpreter for each CPU, into which wheels can be installed.

        They find the root's packages and share what is installed. ``bin/python`` runs on the first CPU.

        Args:
            folder: The environment; emptied first.
            bytecode: Folder for the bytecode of whatever is imported, with what the store has of it; written only where
                PYTHONDONTWRITEBYTECODE is empty.

        Raises:
            StoreError: It cannot be written.
        """
        write_environment(folder, self.python, packages=True)
        with storage_errors(folder):
            if bytecode:
                shutil.copytree(self.bytecode, bytecode, copy_function=link_or_copy)
            return tuple(self._interpreter(folder, place, cpu, bytecode) for place, cpu in enumerate(self.features))

    def _interpreter(self, folder: Path, place: int, cpu: str, bytecode: Path | None) -> Cpu:
        script = folder / "bin" / (f"python-{place}" if place else "python")
        # Nothing is written to the store's bytecode, not even by programs that ignore the environment's variables (-I).
        write_interpreter(script, [*self.command(cpu, script, bytecode), *([] if bytecode else ["-B"])])
        libraries = tuple(library for library, on in self.tried.items() if on == cpu)
        return Cpu(cpu, self.features[cpu], [script], libraries)


def emulated_machine(context: BuildContext) -> EmulatedMachine:
    """Return a machine of a target's kind, unpacking what the store does not have.

    Args:
        context: The run; its target names the root and, for each library, the CPU.

    Raises:
        TargetNotBuiltError: The target names no root, or no CPU.
        ToolchainError: There is no emulator, or the root lacks something, or its Python does not run.
        DownloadError: A package cannot be fetched.
    """
    target, store = context.target, context.store
    name, features = require_emulated(target)
    program = find_emulator(context, target.machine)
    folder = unpacked_root(
        load_lock(context.root, name), ROOTS, mirrors=debian_mirrors(context), store=store, reporter=context.reporter
    )
    root = read_root(folder, target.id, name)
    machine = EmulatedMachine(
        machine=target.machine,
        program=program,
        root=folder,
        python=root.python,
        torch_version=root.torch_version,
        features=features,
        tried={library.name: library.emulated for library in target.libraries if library.emulated},
        bytecode=store.path(BYTECODE, _bytecode_key(folder)),
    )
    _require_libraries(folder, target)
    _compile(context, machine)
    return machine


def require_emulated(target: Target) -> tuple[str, dict[str, frozenset[str]]]:
    """Return the name of a target's root, and the emulated CPUs of its libraries with their features.

    Raises:
        TargetNotBuiltError: It names no root, or no CPU.
    """
    features = emulated_features(target.libraries)
    if target.root is None or not features:
        missing = "a root" if target.root is None else "the emulated CPU of a library"
        raise TargetNotBuiltError(
            f"wheels of target '{target.id}' can be tested on {target.system} {target.machine} alone",
            where=f"matrix.yaml: the target does not name {missing}",
            next_step=f"use a machine with {target.system} {target.machine}",
        )
    return target.root, features


def _require_libraries(root: Path, target: Target) -> None:
    """Check that the libraries which a wheel takes from torch are there by the names that they have in a wheel.

    Debian's have others (``libtorch_cpu.so.2.14``), and these as links for the linker. The loader knows by the file
    that it has one already.
    """
    for soname in target.excluded_libraries:
        if "*" not in soname and not any(root.glob(f"usr/lib/*/{soname}")):
            raise lacking(target.id, str(target.root), soname, root / "usr/lib", "libtorch-dev and libgomp1")


def _bytecode_key(root: Path) -> str:
    return make_key(recipe=_RECIPE, root=root.name, imported=[_IMPORTED, _IMPORT])


def _compile(context: BuildContext, machine: EmulatedMachine) -> None:
    """Import once what the checks import, and keep the bytecode: without it, imports take more than twice as long.

    Python writes and reads it below a folder of its own, so the root is only read. Each file names the time and size
    of its source, which in a store do not change.
    """
    log = context.logs / "emulated-machine.log"

    def make(fresh: Path) -> None:
        context.reporter.info(f"compiling the bytecode of torch for {machine.machine}, emulated")
        # The last CPU is the plainest, which is the fastest to emulate.
        command = replace(machine, bytecode=fresh).command(list(machine.features)[-1])
        try:
            env = closed_environment({"PYTHONDONTWRITEBYTECODE": ""})
            run([*command, "-c", _IMPORT, *_IMPORTED], log=log, env=env)
        except CommandError as error:
            raise ToolchainError(
                f"the emulated machine does not run torch: {error.what}",
                where=machine.root,
                log=log,
                output=error.output,
                next_step="a library or module that is missing is left out in the root's lock",
            ) from error

    context.store.get(BYTECODE, machine.bytecode.name, make)
