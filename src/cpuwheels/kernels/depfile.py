"""Which of upstream's files a build of kernels depended on: what the compiler really read.

vLLM lands dozens of commits a day, and few of them touch a file that the CPU kernels are made from. Kernels are
therefore named by what was read for them (`cpuwheels.core.direct_mode`).
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from cpuwheels.core.capture import capture
from cpuwheels.core.digests import make_key, text_digest, tree_files
from cpuwheels.core.direct_mode import ABSENT, DirectModeCache, content_digest
from cpuwheels.core.errors import CompileError
from cpuwheels.core.models import Strict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cpuwheels.core.store import Store
    from cpuwheels.kernels.request import KernelRequest
    from cpuwheels.kernels.workspace import Workspace

KIND = "reads"

CONFIGURED = ("CMakeLists.txt", "cmake")
"""Read by CMake itself; all of it counts."""

GENERATORS = "csrc/**/*.py"
"""Programs that upstream's CMake runs to write headers."""


class Reads(Strict):
    """The parts of a source tree that a build depended on, as paths below it.

    A folder that a compiler read a file from counts with the names in it too: a new file there could be one that
    an ``#include`` now finds first.
    """

    files: tuple[str, ...]
    folders: tuple[str, ...]

    def digest(self, source: Path) -> str:
        """Return one digest of these files and names in a tree."""
        rows = [f"{name}\0{content}" for name, content in self.contents(source).items()]
        rows += [
            f"{name}/\0{ABSENT if names is None else text_digest(chr(10).join(names))}"
            for name, names in self.names(source).items()
        ]
        return text_digest("\n".join(rows))

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


def kernels_key(request: KernelRequest, reads: Reads) -> str:
    """Return the key of kernels: a digest of what was read for them and of everything apart from the source."""
    return make_key(beside=request.key_beside_source(), source=reads.digest(request.source.folder))


def read_files(request: KernelRequest, workspaces: Iterable[Workspace]) -> Reads:
    """Return what a finished build depended on, from ninja's log of the compilers' dependencies.

    Raises:
        CompileError: ninja cannot tell.
    """
    found: set[str] = set()
    for workspace in workspaces:
        done = capture([request.environment.scripts / "ninja", "-C", workspace.build, "-t", "deps"])
        read = {path for line in done.output.splitlines() if (path := _below(line, workspace))}
        if done.returncode != 0 or not read:
            raise CompileError(
                "ninja does not list the files that the compilers read",
                where=workspace.build,
                output=done.output[-2000:],
                next_step=f"remove {workspace.folder} and build again",
            )
        found |= read
    source = request.source.folder
    configured = {path.relative_to(source).as_posix() for path in _configured(source)}
    folders = {str(PurePosixPath(name).parent) for name in found}
    return Reads(files=tuple(sorted(found | configured)), folders=tuple(sorted(folders)))


def reads_cache(request: KernelRequest, store: Store) -> DirectModeCache[Reads]:
    """Return what earlier builds read that differ only in the source."""
    return DirectModeCache(store, KIND, request.key_beside_source(), Reads)


def _below(line: str, workspace: Workspace) -> str | None:
    """Return the path below the source that a line of ``ninja -t deps`` names, if it does."""
    if not line.startswith("    "):
        return None
    path = os.path.normpath(workspace.build / line.strip())
    prefix = f"{workspace.source}/"
    return path.removeprefix(prefix) if path.startswith(prefix) else None


def _configured(source: Path) -> Iterator[Path]:
    for name in CONFIGURED:
        path = source / name
        yield from tree_files(path) if path.is_dir() else [path] if path.exists() else []
    yield from source.glob(GENERATORS)
