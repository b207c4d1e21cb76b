"""The flags that make a newer GCC build for an older glibc and libstdc++. Pure.

Headers and libraries come from the sysroot, C++ headers from the compiler. C++ symbols come from the sysroot's
libstdc++ as far as the floor has them, so that exceptions and streams are shared with torch; the rest comes from
the compiler's static library, hidden.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cpuwheels.toolchain.probe import Compiler
    from cpuwheels.toolchain.sysroot import Sysroot


@dataclass(frozen=True)
class Flags:
    """A compiler's flags by where they belong; see `Toolchain`."""

    compile_flags: tuple[str, ...] = ()
    cxx_flags: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()
    cxx_libraries: tuple[str, ...] = ()


def compile_flags(sysroot: Sysroot, compiler: Compiler, compiler_flags: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the flags for C and C++ with a sysroot, after those that the compiler always needs."""
    include = sysroot.root / "usr/include"
    # Only Debian's own compilers look into the multiarch folder by default.
    folders = [include / sysroot.multiarch]
    if compiler.c_headers:
        # The compiler's own C library comes before the sysroot's, so its list is replaced by the same without that.
        folders = [*compiler.own_folders, *folders, include]
    return (
        *compiler_flags,
        f"--sysroot={sysroot.root}",
        *(("-nostdinc",) if compiler.c_headers else ()),
        *(part for folder in folders for part in ("-idirafter", str(folder))),
    )


def floor_flags(sysroot: Sysroot, compiler: Compiler, compat: Path, compiler_flags: Sequence[str]) -> Flags:
    """Return all flags of a compiler with a sysroot.

    Args:
        sysroot: What is built against.
        compiler: Its C++ headers and static C++ library are used.
        compat: Static library with what the static C++ library needs beyond the sysroot's C library.
        compiler_flags: What this compiler always needs.
    """
    headers = [part for folder in compiler.cxx_folders for part in ("-isystem", str(folder))]
    libraries = [str(folder) for folder in sysroot.library_folders]
    return Flags(
        compile_flags=compile_flags(sysroot, compiler, compiler_flags),
        cxx_flags=("-nostdinc++", *headers),
        link_flags=(
            # Start files and libraries of the sysroot come before those next to the compiler, else symbols of
            # the newer C library slip in.
            *(f"-B{folder}" for folder in libraries),
            *(f"-L{folder}" for folder in libraries),
            # Keeps the driver from adding the shared library. -nostdlib++ is clearer, but is new in GCC 13.
            "-static-libstdc++",
        ),
        cxx_libraries=(
            *(str(sysroot.cxx_library), str(compiler.static_library), str(compat)),
            # Their symbols stay inside; those of other archives are hidden by how they are compiled.
            f"-Wl,--exclude-libs,libstdc++.a:{compat.name}:libgcc.a:libgcc_eh.a",
            "-Wl,--as-needed",
            # The static library was built for a C library that has pthread's functions itself (2.34), and
            # upstream's kernels call shm_open as if that were theirs.
            *("-lpthread", "-lrt"),
        ),
    )


def prefix_maps(folders: Sequence[tuple[Path, str]]) -> tuple[tuple[Path, str], ...]:
    """Return path maps in the order to give them: outer folders first, since GCC takes the last that fits."""
    unique = dict(reversed(folders))
    return tuple(sorted(unique.items(), key=lambda pair: len(pair[0].parts)))
