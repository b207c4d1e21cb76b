"""Which of upstream's files a build of kernels depended on: what the compiler really read.

vLLM lands dozens of commits a day, and few of them touch a file that the CPU kernels are made from. Kernels are
therefore named by what was read for them (`cpuwheels.core.direct_mode`).
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator

from cpuwheels.core.capture import capture
from cpuwheels.core.digests import make_key, text_digest
from cpuwheels.core.direct_mode import ABSENT, DirectModeCache, content_digest
from cpuwheels.core.errors import CompileError
from cpuwheels.core.models import Strict
from cpuwheels.kernels.executed import counted_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cpuwheels.core.store import Store
    from cpuwheels.kernels.request import KernelRequest
    from cpuwheels.kernels.workspace import Workspace

KIND = "reads"

_MACHINES_OWN = ("/usr/", "/opt/", "/Library/", "/Applications/")
"""Where a machine's own compilers have their headers."""


def _is_below(name: str) -> bool:
    path = PurePosixPath(name)
    return name == str(path) and name.isprintable() and not path.is_absolute() and ".." not in path.parts


def _all_below(names: tuple[str, ...]) -> tuple[str, ...]:
    if wrong := next((name for name in names if not _is_below(name)), None):
        raise ValueError(f"{wrong!a} is no name of a file in a source")
    return names


_Names = Annotated[tuple[str, ...], AfterValidator(_all_below)]


class Reads(Strict):
    """The parts of a source tree that a build depended on, as paths below it.

    A folder that a compiler read a file from counts with the names in it too: a new file there could be one that
    an ``#include`` now finds first.
    """

    files: _Names
    folders: _Names

    def digest(self, source: Path) -> str:
        """Return one digest of these files and names in a tree."""
        rows = [f"{name}\0{content}" for name, content in self.contents(source).items()]
        rows += [
            f"{name}/\0{ABSENT if names is None else text_digest(chr(10).join(names))}"
            for name, names in self.names(source).items()
        ]
        return text_digest("\n".join(rows))

    def with_files(self, names: Iterable[str]) -> Reads:
        """Return these, and some more files."""
        return Reads(files=tuple(sorted({*self.files, *names})), folders=self.folders)

    def contents(self, source: Path) -> dict[str, str]:
        """Return the digest of each file in a tree; what is not there counts as absent."""
        return {name: content_digest(source / name) for name in self.files}

    def names(self, source: Path) -> dict[str, tuple[str, ...] | None]:
        """Return the sorted names in each folder in a tree, None for one that is not there."""
        paths = {name: source / name for name in self.folders}
        return {
            name: tuple(sorted(entry.name for entry in path.iterdir())) if path.is_dir() else None
            for name, path in paths.items()
        }


def kernels_key(request: KernelRequest, reads: Reads, counted: Sequence[str] | None = None) -> str:
    """Return the key of kernels: a digest of what was read for them and of everything apart from the source.

    Args:
        request: Their inputs.
        reads: What was read for the same kernels or for those of another source.
        counted: The files of the source that count always, whether or not they are among those read for another one.
    """
    source = request.source.folder
    named = reads.with_files(counted_files(source) if counted is None else counted)
    return make_key(beside=request.key_beside_source(), source=named.digest(source))


def read_files(request: KernelRequest, workspaces: Iterable[Workspace], store: Path) -> Reads:
    """Return what a finished build depended on, from ninja's log of the compilers' dependencies.

    Args:
        request: What was built.
        workspaces: Where.
        store: The stores' root, where toolchains and environments are.

    Raises:
        CompileError: ninja cannot tell, or a compiler read a file of this machine that nothing names.
    """
    found: set[str] = set()
    named = _named_folders(request, store)
    for workspace in workspaces:
        done = capture([request.environment.scripts / "ninja", "-C", workspace.build, "-t", "deps"])
        paths = {
            os.path.normpath(workspace.build / line.strip())
            for line in done.output.splitlines()
            if line.startswith("    ")
        }
        prefix = f"{workspace.source}/"
        read = {path.removeprefix(prefix) for path in paths if path.startswith(prefix)}
        if done.returncode != 0 or not read:
            raise CompileError(
                "ninja does not list the files that the compilers read",
                where=workspace.build,
                output=done.output[-2000:],
                next_step=f"remove {workspace.folder} and build again",
            )
        named_here = (f"{workspace.folder}/", *named)
        # GCC does not escape every blank in a depfile: a path then ends there, and the rest is another one.
        cut = {folder.partition(" ")[0] for folder in named_here if " " in folder}
        if other := next((path for path in sorted(paths - cut) if not path.startswith(named_here)), None):
            raise CompileError(
                f"a compiler read {other}, which is neither the source's nor the toolchain's",
                where=workspace.build,
                next_step="find the #include that names it; kernels with files of this machine in them are not used",
            )
        found |= read
    folders = {str(PurePosixPath(name).parent) for name in found}
    reads = Reads(files=tuple(sorted(found)), folders=tuple(sorted(folders)))
    return reads.with_files(counted_files(request.source.folder))


def reads_cache(request: KernelRequest, store: Store) -> DirectModeCache[Reads]:
    """Return what earlier builds read that differ only in the source."""
    return DirectModeCache(store, KIND, request.key_beside_source(), Reads)


def _named_folders(request: KernelRequest, store: Path) -> tuple[str, ...]:
    """Return the beginnings of paths whose content is named: what is in the stores, and the compilers of a machine."""
    toolchain, environment = request.toolchain, request.environment
    folders = [store, environment.site_packages, environment.torch_folder, toolchain.cc.parents[1]]
    folders += [*toolchain.python_include, *([toolchain.sysroot] if toolchain.sysroot else [])]
    return (*(f"{folder}/" for folder in dict.fromkeys(folders)), *_MACHINES_OWN)
