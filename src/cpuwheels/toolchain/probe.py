"""Queries to one compiler: what it is and where its parts lie."""

from __future__ import annotations

import functools
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.core.capture import capture
from cpuwheels.core.digests import entry_digest, make_key, tree_digest
from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import ToolchainError
from cpuwheels.toolchain.requirements import Identity, identify, objections, search_list

if TYPE_CHECKING:
    from cpuwheels.config.matrix import Target

TOOLS = ("ar", "ranlib", "strip", "objcopy", "objdump", "as")

_WITHOUT = {"AppleClang": ("objcopy", "objdump", "as")}
"""Tools that do not come with a family; what it links is finished."""

_PROGRAMS = ("cc1", "cc1plus", "collect2", "as", "ld")
_FILES = ("libstdc++.a", "libgcc.a", "libgcc_eh.a", "libgomp.so", "crtbeginS.o", "crtendS.o")
_NO_SYSROOT = "--sysroot=/nonexistent"
_SECONDS = 20


@dataclass(frozen=True)
class Compiler:
    """A compiler that can build for a target.

    Attributes:
        cc: The C compiler.
        cxx: The C++ compiler.
        identity: Family, version and machine.
        title: First line of its ``--version``.
        cxx_folders: Its C++ library's header folders, in order.
        static_library: Its ``libstdc++.a``; None where the target needs none.
        own_folders: Header folders of the compiler itself, such as those with the intrinsics.
        tools: The programs of `TOOLS`.
        c_headers: Whether it searches the headers of a C library of its own, whatever sysroot it is given, as
            distributions' cross compilers do.
    """

    cc: Path
    cxx: Path
    identity: Identity
    title: str
    cxx_folders: tuple[Path, ...]
    own_folders: tuple[Path, ...]
    static_library: Path | None
    tools: dict[str, Path]
    c_headers: bool = False


class RefusedError(Exception):
    """A compiler does not meet a target's requirements; the message says why and begins with what it is."""


def probe(cc: Path, cxx: Path, target: Target, flags: tuple[str, ...] = ()) -> Compiler:
    """Ask a compiler everything that building for a target depends on.

    Args:
        cc: The C compiler.
        cxx: The C++ compiler.
        target: What it is to build for.
        flags: Always passed, such as ``-B``.

    Raises:
        RefusedError: The target does not accept it, or a part of it is missing.
    """
    identity = _identity(cxx, flags, "c++")
    if faults := objections(identity, target):
        raise RefusedError(f"{identity}: {'; '.join(faults)}")
    if not cc.is_file():
        raise RefusedError(f"{identity}: there is no C compiler {cc.name} next to it")
    if (c_identity := _identity(cc, flags, "c")) != identity:
        raise RefusedError(f"{identity}: its C compiler {cc} is another one, {c_identity}")
    static_library = None if target.sysroot is None else _named_file(cxx, flags, "libstdc++.a")
    if static_library is not None and not static_library.is_file():
        raise RefusedError(
            f"{identity}: it has no libstdc++.a, which keeps newer C++ symbols out of the wheel "
            "(Fedora and RHEL: package libstdc++-static)"
        )
    tools = {name: _named_program(cxx, flags, name) for name in TOOLS}
    absent = (name for name, path in tools.items() if not (path.is_absolute() and path.is_file()))
    if missing := [name for name in absent if name not in _WITHOUT.get(identity.family, ())]:
        raise RefusedError(f"{identity}: no {' or '.join(missing)} (binutils) next to it or on PATH")
    c_list, cxx_list = (_headers(cxx, flags, language) for language in ("c", "c++"))
    include = _named_file(cxx, flags, "include")
    fixed_list = _headers(cxx, (*flags, _NO_SYSROOT), "c") if target.sysroot else ()
    return Compiler(
        cc=cc,
        cxx=cxx,
        identity=identity,
        title=capture([cxx, "--version"], timeout=_SECONDS).output.partition("\n")[0].strip(),
        cxx_folders=tuple(folder for folder in cxx_list if folder not in c_list),
        own_folders=tuple(folder for folder in c_list if include.is_dir() and folder.samefile(include)),
        static_library=None if static_library is None else static_library.resolve(),
        tools=tools,
        c_headers=any((folder / "features.h").is_file() for folder in fixed_list),
    )


def compiler_digest(compiler: Compiler) -> str:
    """Return the key of a compiler's own bytes, the same wherever it is installed.

    It covers the programs that compile and link, the driver's built-in rules, the C++ headers and the
    libraries that end in what it makes; not the C library, which comes from the sysroot.
    """
    programs = [_named_program(compiler.cxx, (), name) for name in _PROGRAMS]
    files = [_named_file(compiler.cxx, (), name) for name in _FILES]
    parts = {path.name: entry_digest(path.resolve()) for path in (*programs, *files) if path.is_file()}
    folders = _outermost(compiler.cxx_folders + compiler.own_folders)
    return make_key(
        identity=str(compiler.identity),
        machine=compiler.identity.machine,
        rules=capture([compiler.cxx, "-dumpspecs"], timeout=_SECONDS).output,
        parts=parts,
        headers=[tree_digest(folder) for folder in folders],
    )


def _outermost(folders: tuple[Path, ...]) -> list[Path]:
    return [folder for folder in folders if not any(other in folder.parents for other in folders)]


def _identity(compiler: Path, flags: tuple[str, ...], language: str) -> Identity:
    macros = _ask(compiler, *flags, "-dM", "-E", "-x", language, os.devnull)
    identity = identify(macros, _ask(compiler, *flags, "-dumpmachine"))
    if identity is None:
        raise RefusedError("not a compiler of a known family (its predefined macros name none)")
    return identity


def _headers(compiler: Path, flags: tuple[str, ...], language: str) -> tuple[Path, ...]:
    answer = _ask(compiler, *flags, "-E", "-v", "-x", language, os.devnull, both=True)
    return tuple(Path(folder) for folder in search_list(answer))


def _named_file(compiler: Path, flags: tuple[str, ...], name: str) -> Path:
    """Return where the compiler has a file; it answers with the bare name when it has none."""
    return Path(_ask(compiler, *flags, f"-print-file-name={name}").strip())


def _named_program(compiler: Path, flags: tuple[str, ...], name: str) -> Path:
    """Return the program the compiler itself would start; a bare name means it would search PATH."""
    answer = _ask(compiler, *flags, f"-print-prog-name={name}").strip()
    return Path(shutil.which(answer, path=closed_environment()["PATH"]) or answer)


def _ask(compiler: Path, *arguments: str, both: bool = False) -> str:
    try:
        found = compiler.stat()
    except OSError as error:
        raise RefusedError(f"it does not work: {error}") from error
    return _answer(compiler, (found.st_ino, found.st_size, found.st_mtime_ns), arguments, both=both)


@functools.cache
def _answer(compiler: Path, identity: tuple[int, int, int], arguments: tuple[str, ...], *, both: bool) -> str:  # noqa: ARG001
    """Return a compiler's answer, kept as long as it is the same file: many builds in a row ask the same one."""
    answer = capture([compiler, *arguments], timeout=_SECONDS, both=both)
    if answer.returncode != 0:
        last = answer.output.strip().splitlines()[-1:] or ["no output"]
        raise RefusedError(f"it does not work: {last[0]}")
    return answer.output


def unusable(error: RefusedError, compiler: Path) -> ToolchainError:
    """Return the message for a compiler of ours that its own target refuses."""
    return ToolchainError(
        f"the unpacked compiler cannot be used: {error}",
        where=compiler,
        next_step="check that its lock in matrix.yaml is for this machine, or run with --toolchain host",
    )
