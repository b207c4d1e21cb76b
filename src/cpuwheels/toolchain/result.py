"""A compiler with its sysroot: everything that the later stages need to compile, link and make keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Toolchain:
    """A compiler that meets a target's requirements, and the flags that keep what it makes under the target's floor.

    Attributes:
        kind: ``host`` for a compiler of this machine, ``debian`` for the unpacked one, ``zig`` for the one of a macOS
            target on other systems.
        description: One line for people, such as ``GNU 14.2.0 (Debian 14.2.0-19), unpacked``.
        family: ``GNU`` or ``AppleClang``.
        version: Its full version.
        cc: The C compiler.
        cxx: The C++ compiler.
        ar: Archiver.
        ranlib: Archive indexer.
        strip: Symbol stripper.
        objcopy: Object copier.
        machine: What it compiles for, as ``platform.machine()`` names it.
        sysroot: Root whose headers and libraries are built against; None where the target has none.
        compile_flags: For C and C++; also wanted when linking through the compiler.
        cxx_flags: For C++ only.
        link_flags: When linking, before the objects.
        cxx_libraries: When linking C++, after everything else: CMake's ``CMAKE_CXX_STANDARD_LIBRARIES``.
        prefix_maps: (Folder, stable name) for ``-ffile-prefix-map``, in the order to give them: where two
            match a path, GCC takes the one given last.
        library_folders: Where the sysroot's shared libraries lie, for those that go into the wheel.
        python_include: Folders with the headers of the Python that the kernels are built against.
        digest: Key of the compiler, the sysroot and the flags, wherever they lie.
        refused: Host compilers that were looked at, and why each was refused.
        objdump: Disassembler, where finished files are to be checked with it.
        assembler: Likewise.
    """

    kind: Literal["host", "debian", "zig"]
    description: str
    family: str
    version: str
    cc: Path
    cxx: Path
    ar: Path
    ranlib: Path
    strip: Path
    objcopy: Path
    machine: str
    sysroot: Path | None
    compile_flags: tuple[str, ...]
    cxx_flags: tuple[str, ...]
    link_flags: tuple[str, ...]
    cxx_libraries: tuple[str, ...]
    prefix_maps: tuple[tuple[Path, str], ...]
    library_folders: tuple[Path, ...]
    python_include: tuple[Path, ...]
    digest: str
    refused: tuple[str, ...]
    objdump: Path | None = None
    assembler: Path | None = None
