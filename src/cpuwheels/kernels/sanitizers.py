"""The sanitizers that upstream's kernels can be compiled for, and what their run times are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.digests import file_digest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.config.options import Sanitizer

STEERING = "sanitize.cmake"
"""File below ``cmake/`` that adds the flags; a wheel's kernels never depend on it."""


OPENMP = "openmp/libgomp.so.1"
"""LLVM's OpenMP runtime under the name of GNU's, for code that was compiled for either: only LLVM's has tools, and the
sanitizer needs one to know how threads wait for each other."""

ARCHER = "usr/lib/llvm-19/lib/libarcher.so"
"""That tool, below the unpacked packages."""

_LIBRARIES = "usr/lib/x86_64-linux-gnu"


@dataclass(frozen=True)
class Sanitizers:
    """Sanitizers that are used together.

    Attributes:
        title: For people.
        flags: The compiler's.
        runtimes: Their libraries below the unpacked packages, in the order in which they are loaded in front of
            everything else.
        options: What each of them is told: environment variable → options, with ``{folder}`` for the packages'.
    """

    title: str
    flags: tuple[str, ...]
    runtimes: tuple[str, ...]
    options: Mapping[str, str]

    def identity(self, root: Path) -> list[str]:
        """Return what names their part in a set of kernels; ``root`` is the project's folder."""
        return [*self.flags, file_digest(root / "cmake" / STEERING)]


SANITIZERS: Mapping[Sanitizer, Sanitizers] = {
    "address": Sanitizers(
        title="AddressSanitizer and UndefinedBehaviorSanitizer",
        flags=(
            "-fsanitize=address,undefined",
            # One run finds all there is, and not the first fault of each process.
            "-fsanitize-recover=address,undefined",
            # Compares types of objects, whose descriptions torch does not export.
            "-fno-sanitize=vptr",
            # Copying nothing from a null pointer is defined since C2Y (N3322); copying something is a signal anyway.
            "-fno-sanitize=nonnull-attribute",
            "-fno-omit-frame-pointer",
            # Lines, and nothing else of what a debugger needs.
            "-g1",
        ),
        runtimes=(f"{_LIBRARIES}/libasan.so.8", f"{_LIBRARIES}/libubsan.so.1"),
        options={
            # What Python and torch keep until they end is no concern of the kernels.
            "ASAN_OPTIONS": "halt_on_error=0:detect_leaks=0",
            "UBSAN_OPTIONS": "halt_on_error=0:print_stacktrace=1",
        },
    ),
    "thread": Sanitizers(
        title="ThreadSanitizer",
        flags=("-fsanitize=thread", "-fno-omit-frame-pointer", "-g1"),
        runtimes=(f"{_LIBRARIES}/libtsan.so.2", OPENMP),
        options={
            # torch is not compiled for it, and threads of its libraries go on to the end. Ranks are forked, with
            # threads.
            "TSAN_OPTIONS": "halt_on_error=0:exitcode=0:ignore_noninstrumented_modules=1:report_thread_leaks=0"
            ":die_after_fork=0",
            # Tells the sanitizer how OpenMP's threads wait for each other.
            "OMP_TOOL_LIBRARIES": f"{{folder}}/{ARCHER}",
            # Threads that wait sleep at once, as GNU's do by their own variable.
            "KMP_BLOCKTIME": "0",
        },
    ),
}
