"""What CMake, ninja and the compilers of a build see: their tools, their inputs, and the folder of the build."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.core.errors import CompileError
from cpuwheels.core.filesystem import storage_errors
from cpuwheels.kernels.ccache.settings import SCRIPTS
from cpuwheels.sandbox.prepare import get_sandbox
from cpuwheels.sandbox.steps import compilation
from cpuwheels.sandbox.view import follow, interpreter_places, program_places

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from cpuwheels.config.context import BuildContext
    from cpuwheels.kernels.ccache.settings import CompilerCache
    from cpuwheels.kernels.memory.memgate import GateFolder
    from cpuwheels.kernels.request import KernelRequest
    from cpuwheels.sandbox.confine import Confined, Sandbox
    from cpuwheels.toolchain.result import Toolchain

TORCH_PLACE = Path(__file__).with_name("resources") / "torch_place"
"""Folder of packages with what answers for torch while CMake configures."""

_ZIG_CACHE = "zig"


@dataclass(frozen=True)
class Confinement:
    """Confines the commands of one build.

    Attributes:
        sandbox: By which mechanism.
        folder: All of the build lies below it.
        readable: What its commands may read.
        writable: What they may write apart from the folder.
        plans: Folder for the sandbox's description.
    """

    sandbox: Sandbox
    folder: Path
    readable: tuple[Path, ...]
    writable: tuple[Path, ...]
    plans: Path

    def command(
        self, name: str, argv: Sequence[str | Path], env: Mapping[str, str], also: Iterable[Path] = ()
    ) -> Confined:
        """Return a command that runs confined.

        Args:
            name: The step, for people.
            argv: The command.
            env: Its variables.
            also: More that it may read.
        """
        step = compilation(name, self.folder, (*self.readable, *also), self.writable)
        variables = {**env, "CPUWHEELS_ZIG_CACHE": str(self.folder / _ZIG_CACHE)}
        return self.sandbox.confine(step, argv, variables, self.plans)


def confinement(
    context: BuildContext,
    request: KernelRequest,
    folder: Path,
    gate: GateFolder,
    cache: CompilerCache | None,
    *,
    inputs: Iterable[Path] = (),
) -> Confinement:
    """Return what confines the commands of a build.

    Args:
        context: The run.
        request: The kernels, with their toolchain and tools.
        folder: All of the build lies below it.
        gate: Where its jobs wait for room; they write there.
        cache: The compiler cache, which its compilers fill.
        inputs: What else is read.
    """
    environment, store = request.environment, context.store.root
    python = environment.python.absolute()
    readable = [
        *interpreter_places(python),
        python.parent.parent,
        environment.torch_folder,
        *environment.places,
        request.root / "cmake",
        TORCH_PLACE,
        gate.memgate,
        *toolchain_places(request.toolchain),
        *inputs,
    ]
    writable = [gate.folder]
    if cache:
        shared = cache.shared_folders()
        readable += [cache.program, SCRIPTS, *(folder for folder, written in shared.items() if not written)]
        writable += [cache.own_folder(), *(folder for folder, written in shared.items() if written)]
        for each in writable:
            with storage_errors(each):
                each.mkdir(parents=True, exist_ok=True)
    return Confinement(
        sandbox=get_sandbox(context),
        folder=folder,
        readable=readable_places(readable, store),
        writable=tuple(writable),
        plans=context.logs,
    )


def require_files(paths: Iterable[Path]) -> None:
    """Refuse what a build left where its files should be, before any of it is opened.

    A link would make this process read what the build itself could not see, and a FIFO would make it wait for ever.

    Raises:
        CompileError: One of those that are there is no plain file.
    """
    for path in paths:
        if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
            raise CompileError(
                f"the build left a {'link' if path.is_symlink() else 'special file'} in place of {path.name}",
                where=path,
                next_step="see what the source's CMake project does; nothing of it was used",
            )


def readable_places(paths: Iterable[Path], store: Path) -> tuple[Path, ...]:
    """Return what has to be readable so that paths are, those of a store with the entries that they are in.

    Links within the store, as to a compiled library, lead from one entry to another.
    """
    return tuple(dict.fromkeys(_entry(end, store) for path in paths for end in (path, Path(follow(path)[0]))))


def toolchain_places(toolchain: Toolchain) -> Iterator[Path]:
    """Yield the folders of a toolchain's programs, headers and libraries, those that only its flags name included."""
    programs = (toolchain.cc, toolchain.cxx, toolchain.ar, toolchain.ranlib, toolchain.strip, toolchain.objcopy)
    for program in (*programs, toolchain.objdump, toolchain.assembler):
        if program is not None:
            yield from program_places(program)
    yield from (folder for folder, _ in toolchain.prefix_maps)
    yield from toolchain.library_folders
    yield from toolchain.python_include
    if toolchain.sysroot:
        yield toolchain.sysroot
    flags = (*toolchain.compile_flags, *toolchain.cxx_flags, *toolchain.link_flags, *toolchain.cxx_libraries)
    for flag in flags:
        _, slash, rest = flag.partition("/")
        if slash and os.path.lexists(path := Path(f"/{rest}")):
            yield path


def _entry(path: Path, store: Path) -> Path:
    """Return the store's entry that a path is in; a path elsewhere as it is."""
    if not path.is_relative_to(store):
        return path
    parts = path.relative_to(store).parts
    least = 2
    return store.joinpath(*parts[:least]) if len(parts) > least else path
