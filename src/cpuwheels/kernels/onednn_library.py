"""oneDNN as a finished library, kept for the next build that would make the same one.

It is compiled within upstream's project, which chooses its options. So it is named by every file that may run there
(`cpuwheels.kernels.executed`), and by all that does not belong to the source. Files that are only compiled decide about
one thing: which of its functions are called, for the library has no others. That is known only when they are compiled.
So a build takes the library that was made last, and makes its own if the calls turn out to be other ones.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.collect import Limits, collect_tree
from cpuwheels.core.digests import make_key, tree_digest
from cpuwheels.core.direct_mode import DirectModeCache
from cpuwheels.core.models import Strict
from cpuwheels.kernels.collect import read_built, refused
from cpuwheels.kernels.compile_flags import flags_of, read_flags, write_flags
from cpuwheels.kernels.executed import counted_files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.core.store import Store
    from cpuwheels.kernels.request import KernelRequest
    from cpuwheels.kernels.workspace import Workspace

KIND = "onednn-libraries"
CALLS = "onednn-calls"
"""Kind of the lists of calls with which libraries were made."""

_FOLDER = "build"
"""Holds what a build folder gets of it."""

_HEADERS = "_deps/onednn-build/include"
"""Those that oneDNN's project writes, as `cmake/steer/onednn.cmake` places them."""

_MOST_HEADERS = Limits(files=100, size=4 << 20)
"""oneDNN 3.13.0 writes three, of 9 KB."""

_MOST_CALLS = 1 << 20
"""Bytes of a list of calls; that of vLLM 0.32.0 has 63, 2 KB."""

_MOST_LIBRARY = 1 << 30
"""Bytes of a library with debug symbols."""


class _Calls(Strict):
    """The symbols that upstream's objects leave to other libraries."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class OneDnnLibrary:
    """A finished library in the store.

    Attributes:
        folder: Its entry.
        calls: The symbols that the objects which call it leave to other libraries, sorted.
        flags: Compiler flags of the CMake targets of the build that made it, oneDNN's among them.
    """

    folder: Path
    calls: tuple[str, ...]
    flags: Mapping[str, tuple[str, ...]]

    def place(self, build: Path) -> None:
        """Copy into a new build folder what oneDNN's own build would have made there.

        Raises:
            OSError: It cannot be written.
        """
        shutil.copytree(self.folder / _FOLDER, build, dirs_exist_ok=True)

    def fits(self, workspace: Workspace) -> bool:
        """Return whether a build that was finished with it would have made the same one.

        Raises:
            CompileError: The build left no list of its calls.
        """
        return _calls(workspace) == self.calls


def find_library(store: Store, request: KernelRequest) -> OneDnnLibrary | None:
    """Return the library that the latest build with the same programs made, if there is one.

    Args:
        store: Where libraries are kept, with who vouches for the source.
        request: The kernels that would be linked with it.
    """
    if not _is_shared(request):
        return None
    key = _key(request)
    for calls in _known(store, key).known():
        if folder := store.find(KIND, _key_with(key, calls.names)):
            return OneDnnLibrary(folder, calls.names, read_flags(folder))
    return None


def keep_library(store: Store, request: KernelRequest, workspace: Workspace) -> OneDnnLibrary | None:
    """Keep the library of a finished build, and return it; None if the build has none.

    Args:
        store: As for `find_library`.
        request: What was built.
        workspace: The configuration that made the library, or was linked with a finished one.

    Raises:
        CompileError: The build left something else in its place.
    """
    if not _is_shared(request) or not workspace.libraries():
        return None
    key, calls = _key(request), _calls(workspace)

    def fill(folder: Path) -> None:
        build = folder / _FOLDER
        build.mkdir()
        for path in (*workspace.libraries(), workspace.libraries_list):
            (build / path.name).write_bytes(read_built(path, _MOST_LIBRARY))
        headers = workspace.build / _HEADERS
        if os.path.lexists(headers):
            try:
                collect_tree(headers, build / _HEADERS, _MOST_HEADERS)
            except ValueError as error:
                raise refused(headers, str(error)) from error
        write_flags(flags_of([workspace]), folder)

    found = store.get(KIND, _key_with(key, calls), fill)
    _known(store, key).keep(_Calls(names=calls))
    return OneDnnLibrary(found, calls, read_flags(found))


def _is_shared(request: KernelRequest) -> bool:
    defines = request.target.defines
    return bool(request.onednn and defines.get("CPUWHEELS_SHARED") and not defines.get("CPUWHEELS_ONEDNN_BY_UPSTREAM"))


def _key(request: KernelRequest) -> str:
    """Return a digest of all that decides about a library but the calls."""
    source = request.source.folder
    return make_key(layout=1, beside=request.key_beside_source(), programs=tree_digest(source, counted_files(source)))


def _key_with(key: str, calls: tuple[str, ...]) -> str:
    return make_key(beside=key, calls=calls)


def _known(store: Store, key: str) -> DirectModeCache[_Calls]:
    return DirectModeCache(store, CALLS, key, _Calls)


def _calls(workspace: Workspace) -> tuple[str, ...]:
    try:
        return tuple(sorted(read_built(workspace.onednn_calls, _MOST_CALLS).decode().split()))
    except UnicodeDecodeError as error:
        raise refused(workspace.onednn_calls, "it is no text") from error
