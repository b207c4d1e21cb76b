"""The flags that make a newer GCC build for an older glibc and libstdc++. Pure.

Headers and libraries come from the sysroot, C++ headers from the compiler. C++ symbols come from the stub as
far as the floor has them, the rest from the compiler's static library, hidden.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cpuwheels.toolchain.sysroot import Sysroot


@dataclass(frozen=True)
class Flags:
    """A compiler's flags by where they belong; see `Toolchain`."""

    compile_flags: tuple[str, ...] = ()
    cxx_flags: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()
    cxx_libraries: tuple[str, ...] = ()


def floor_flags(
    sysroot: Sysroot, stub: Path, cxx_folders: Sequence[Path], compiler_flags: Sequence[str] = ()
) -> Flags:
    """Return the flags for a sysroot and a stub.

    Args:
        sysroot: What is built against.
        stub: The C++ library that has no more than the floor.
        cxx_folders: The compiler's C++ headers, in order.
        compiler_flags: What this compiler always needs.
    """
    root, multiarch = sysroot.root, sysroot.multiarch
    headers = [part for folder in cxx_folders for part in ("-isystem", str(folder))]
    libraries = [str(folder) for folder in sysroot.library_folders]
    return Flags(
        compile_flags=(
            *compiler_flags,
            f"--sysroot={root}",
            # Only Debian's own compilers look into the multiarch folder unasked.
            *("-idirafter", f"{root}/usr/include/{multiarch}"),
        ),
        cxx_flags=("-nostdinc++", *headers),
        link_flags=(
            # Start files and libraries of the sysroot come before those beside the compiler, else symbols of
            # the newer C library slip in.
            *(f"-B{folder}" for folder in libraries),
            *(f"-L{folder}" for folder in libraries),
            # Puts the static library after cxx_libraries. -nostdlib++ would say it plainer, but is GCC 13's.
            "-static-libstdc++",
        ),
        cxx_libraries=(str(stub), "-Wl,--exclude-libs,ALL", "-Wl,--as-needed"),
    )


def prefix_maps(folders: Sequence[tuple[Path, str]]) -> tuple[tuple[Path, str], ...]:
    """Return path maps in the order to give them: outer folders first, since GCC takes the last that fits."""
    unique = dict(reversed(folders))
    return tuple(sorted(unique.items(), key=lambda pair: len(pair[0].parts)))
