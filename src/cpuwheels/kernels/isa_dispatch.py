"""The chooser: the module that upstream imports, which loads the best kernel library that the CPU can run.

Upstream picks among libraries on x86 alone; elsewhere it imports one module. Where a target has several libraries,
or one that not every machine of its kind can run, that module is ours (``csrc/chooser``). It runs before anything is
known of the CPU, so it is compiled for the oldest supported one and needs only the C library.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from cpuwheels.core.digests import make_key, tree_digest
from cpuwheels.core.errors import CommandError, CompileError, MatrixError
from cpuwheels.core.process import run
from cpuwheels.kernels.result import MODULES

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.matrix import Library, Target
    from cpuwheels.toolchain.result import Toolchain

KIND = "choosers"
SOURCES = ("chooser", "isaprobe")
"""Folders below ``csrc/``; isaprobe's own program is left out."""

_PROGRAM = "main.c"
_TABLE = "table.h"
_FLAGS = (
    "-std=c17",
    "-O2",
    "-fPIC",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    # Python 3.8's, the oldest that the kernels' stable ABI names.
    "-DPy_LIMITED_API=0x03080000",
)
_LINK = ("-shared", "-Wl,--as-needed", "-ldl")


def file_name(module: str) -> str:
    """Return the file of an extension module for Python's stable ABI."""
    return f"{module}.abi3.so"


def chooser_digest(target: Target, root: Path) -> str | None:
    """Return a digest of what a target's chooser is compiled from; None if it has none.

    Raises:
        MatrixError: The target's chooser and libraries do not go together.
    """
    if target.chooser is None:
        return None
    return make_key(
        sources=tree_digest(root / "csrc", list(SOURCES)),
        table=render_table(target),
        baseline=target.baseline,
        flags=[*_FLAGS, *_LINK],
    )


def chooser_key(target: Target, toolchain: Toolchain, root: Path) -> str:
    """Return the key of a target's chooser: a digest of everything that its bytes depend on.

    Raises:
        MatrixError: The target's chooser and libraries do not go together.
    """
    return make_key(sources=chooser_digest(target, root), toolchain=toolchain.digest)


def beside_kernels(context: BuildContext, toolchain: Toolchain) -> dict[str, Path]:
    """Return what a target's wheel holds besides its kernels, by its name there: the chooser, if it has one.

    Raises:
        MatrixError: The target's chooser and libraries do not go together.
        CompileError: It does not compile.
    """
    if context.target.chooser is None:
        return {}
    chooser = build_chooser(context, toolchain)
    return {f"{MODULES}/{chooser.name}": chooser}


def build_chooser(context: BuildContext, toolchain: Toolchain) -> Path:
    """Return the chooser of a target, compiling it if the store does not have it.

    Args:
        context: The run; its target has a chooser.
        toolchain: Compiles for the target's machine and floor.

    Raises:
        MatrixError: The target's chooser and libraries do not go together.
        CompileError: It does not compile.
    """
    target, root = context.target, context.root
    table = render_table(target)
    name = file_name(str(target.chooser))

    def make(folder: Path) -> None:
        (folder / _TABLE).write_text(table, encoding="utf-8")
        module, log = folder / name, context.logs / "chooser.log"
        try:
            run(_command(target, toolchain, root / "csrc", folder, module), log=log)
            run([toolchain.strip, "--strip-unneeded", module], log=log)
        except CommandError as error:
            raise CompileError(
                f"the chooser {target.chooser} of target {target.id} does not compile",
                where=root / "csrc" / SOURCES[0],
                log=log,
                output=error.output,
                next_step="read the compiler's output; the chooser needs Python's headers and the C library's",
            ) from error
        module.chmod(0o755)

    return context.store.get(KIND, chooser_key(target, toolchain, root), make) / name


def render_table(target: Target) -> str:
    """Return the C header with a target's libraries.

    Raises:
        MatrixError: The target's chooser and libraries do not go together.
    """
    if faults := objections(target):
        raise MatrixError(
            f"the libraries of target {target.id} do not go with its chooser: {faults[0]}",
            where=f"matrix.yaml: {target.id}",
            output="\n".join(faults[1:]),
            next_step="correct its chooser, baseline and libraries; docs/chooser.md describes how they go together",
        )
    rows = "\n".join(_row(library) for library in target.libraries)
    return (
        f"#define MODULE_NAME {_quoted(str(target.chooser))}\n"
        f"#define MODULE_INIT PyInit_{target.chooser}\n"
        f"#define TARGET {_quoted(target.description)}\n"
        f"static const struct library LIBRARIES[] = {{\n{rows}\n}};\n"
    )


def objections(target: Target) -> list[str]:
    """Return everything wrong with how a target's chooser and libraries go together."""
    faults = []
    if target.chooser is None:
        return ["it has no chooser"]
    if target.baseline is None:
        faults.append("a chooser needs a baseline, which every machine can run")
    faults += [
        f"{library.name} is not named {target.chooser}_<ISA>"
        for library in target.libraries
        if not library.name.removeprefix(f"{target.chooser}_") or not library.name.startswith(f"{target.chooser}_")
    ]
    for number, library in enumerate(target.libraries):
        hiding = [other.name for other in target.libraries[:number] if {*other.needs} <= {*library.needs}]
        faults += [f"{library.name} is never chosen: {name} before it needs nothing else" for name in hiding]
    return faults


def _row(library: Library) -> str:
    needs = "".join(f"{_quoted(need)}, " for need in library.needs)
    return f"    {{{_quoted(library.name)}, (const char *const[]){{{needs}NULL}}}},"


def _quoted(text: str) -> str:
    """Return a C string; for the characters in names, JSON's escapes are also C's."""
    return json.dumps(text, ensure_ascii=False)


def _command(target: Target, toolchain: Toolchain, csrc: Path, folder: Path, module: Path) -> list[str | Path]:
    sources = [path for part in SOURCES for path in sorted((csrc / part).glob("*.c")) if path.name != _PROGRAM]
    includes = [f"-I{path}" for path in (folder, csrc / "isaprobe")]
    includes += [part for path in toolchain.python_include for part in ("-isystem", str(path))]
    maps = [f"-ffile-prefix-map={path}={name}" for path, name in (*toolchain.prefix_maps, (csrc, "csrc"))]
    compiler: list[str | Path] = [toolchain.cc, *toolchain.compile_flags, *toolchain.link_flags]
    return [*compiler, f"-march={target.baseline}", *_FLAGS, *maps, *includes, "-o", module, *sources, *_LINK]
