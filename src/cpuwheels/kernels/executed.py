"""The files of a source that count for its kernels whatever a build reports, by rules that no source can change.

A build runs CMake, the source's own scripts and compilers. Their reports (depfiles, ninja's log) are believed as far
as these programs are honest, and they are if everything that could run is. So each file that could run is in the key of
the kernels: what a hostile one forges is found by those alone who would run it themselves.
"""

from __future__ import annotations

import os
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from cpuwheels.core.digests import tree_names
from cpuwheels.core.errors import CompileError
from cpuwheels.kernels.request import KERNEL_INPUTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_COMPILED = "csrc/"
"""Below it, files of the kinds below are only compiled; all others count always, as does what is not below it."""

_PASSIVE = frozenset(
    ".c .cc .cpp .cxx .cu .cuh .h .hh .hpp .hxx .inc .inl .md .gitignore .gitattributes".split()  # noqa: SIM905
)

_UNREPORTED = {
    b"incbin": re.compile(rb"incbin"),
    b".include": re.compile(rb"\.include\b"),
    b"embed": re.compile(rb"(?:#|%:)[ \t]*embed\b|__has_embed"),
    b"__has_include": re.compile(rb"__has_include"),
}
"""Directives with which a file is read, or asked for, that no depfile names: the assembler's ``.incbin`` and
``.include``, ``#embed`` of older compilers, and whether a header is there. Each with a word that is quick to find."""


def counted_files(source: Path) -> list[str]:
    """Return the names of a source's files that count for kernels whatever a build reads; all of them with a reason."""
    names = list(_inputs(source))
    if _reason(source, names):
        return names
    return [name for name in names if not is_passive(name)]


def unreported_reads(source: Path) -> str:
    """Return why a build may depend on files that compilers do not report; nothing if it cannot.

    Args:
        source: The tree.
    """
    return _reason(source, list(_inputs(source)))


def check_links(source: Path) -> None:
    """Check that no symbolic link shows a build something else than the files that its key can name.

    Raises:
        CompileError: One does.
    """
    names = list(_inputs(source))
    for name in names:
        path = f"{source}/{name}"
        if os.path.islink(path):  # noqa: PTH114  (hundreds of files)
            behind = os.path.relpath(os.path.realpath(path), os.path.realpath(source))
            if behind not in names:
                raise CompileError(
                    f"{name} is a symbolic link to {os.readlink(path)!a}, "  # noqa: PTH115
                    "which is none of the files that kernels are made from",
                    where=path,
                    next_step=f"have the file itself there; kernels are made from {', '.join(KERNEL_INPUTS)} alone",
                )


def _inputs(source: Path) -> Iterator[str]:
    for part in KERNEL_INPUTS:
        if (source / part).is_dir() and not (source / part).is_symlink():
            yield from (f"{part}/{name}" for name in tree_names(source / part))
        elif os.path.lexists(source / part):
            yield part


def is_passive(name: str) -> bool:
    """Return whether a file is only compiled, as far as its name tells."""
    path = PurePosixPath(name)
    return name.startswith(_COMPILED) and (path.suffix or path.name) in _PASSIVE


def _reason(source: Path, names: list[str]) -> str:
    for name in names:
        path = f"{source}/{name}"
        if os.path.islink(path):  # noqa: PTH114  (hundreds of files)
            return f"{name} is a symbolic link"
        if is_passive(name):
            with open(path, "rb") as stream:  # noqa: PTH123
                content = stream.read()
            for word, directive in _UNREPORTED.items():
                if word in content and (found := directive.search(content)):
                    return f"{name} has {found[0].decode()}"
    return ""
