"""The few functions of newer C libraries that a new GCC's ``libstdc++.a`` and headers call, for older ones.

They are linked in hidden and only where something calls them. Without them such a call stays an undefined
symbol without a version, which no policy check sees and which fails on the user's machine only.
"""

from __future__ import annotations

import importlib.resources
from typing import TYPE_CHECKING

from cpuwheels.core.digests import make_key, text_digest
from cpuwheels.core.errors import CommandError, ToolchainError
from cpuwheels.core.process import run

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.toolchain.probe import Compiler

KIND = "compat"
NAME = "libcpuwheels_compat.a"
RECIPE = 1
"""Increased when the same sources would be compiled into other bytes."""


def sources() -> dict[str, str]:
    """Return the C sources by file name."""
    folder = importlib.resources.files("cpuwheels.toolchain").joinpath("compat")
    files = (entry for entry in folder.iterdir() if entry.name.endswith(".c"))
    return {entry.name: entry.read_text("utf-8") for entry in sorted(files, key=lambda entry: entry.name)}


def sources_digest() -> str:
    """Return the digest of the C sources."""
    return text_digest("\0".join(f"{name}\0{text}" for name, text in sources().items()))


def compat_library(context: BuildContext, compiler: Compiler, flags: tuple[str, ...], inputs: str) -> Path:
    """Return the static library, compiling it first if it is not in the store.

    Args:
        context: The run; its store keeps the library.
        compiler: Compiles it.
        flags: The target's compile flags.
        inputs: Key of the compiler and the sysroot.

    Raises:
        ToolchainError: The compiler fails.
    """

    def make(folder: Path) -> None:
        for name, text in sources().items():
            (folder / name).write_text(text)
        names = list(sources())
        objects = [name.replace(".c", ".o") for name in names]
        compile_all: list[str | Path] = [compiler.cc, *flags, "-O2", "-fPIC", "-fvisibility=hidden", "-c", *names]
        log = context.logs / "compat.log"
        try:
            run(compile_all, log=log, cwd=folder)
            run([compiler.tools["ar"], "rcsD", NAME, *objects], log=log, cwd=folder)
        except CommandError as error:
            raise ToolchainError(
                f"{compiler.identity} could not compile a small C file against the sysroot",
                where=error.where,
                log=error.log,
                output=error.output,
                next_step="run with --toolchain debian to use the pinned compiler, or see the log",
            ) from error
        for name in objects:
            (folder / name).unlink()

    key = make_key(recipe=RECIPE, sources=sources_digest(), inputs=inputs)
    return context.store.get(KIND, key, make) / NAME
