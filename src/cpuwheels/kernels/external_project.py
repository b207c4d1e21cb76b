"""A CMake project that is compiled on its own: once, below the cap of the kernels, and kept in the store."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cpuwheels.core.boot import is_complete, mark_complete
from cpuwheels.core.digests import make_key, tree_digest
from cpuwheels.core.errors import CompileError
from cpuwheels.core.filesystem import empty_folder, remove_tree, storage_errors, write_atomic
from cpuwheels.core.models import parse_as
from cpuwheels.core.sealed_entry import skip_manifest
from cpuwheels.kernels.cmake import run_cmake
from cpuwheels.kernels.cmake_cache import STABLE_ROOT, build_variables, cache_text, toolchain_text
from cpuwheels.kernels.confined import confinement
from cpuwheels.kernels.launchers import Launchers
from cpuwheels.kernels.memory.admission import gate_session
from cpuwheels.kernels.memory.ledger import LEDGER
from cpuwheels.kernels.ninja import run_ninja

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.kernels.ccache.settings import CompilerCache
    from cpuwheels.kernels.memory.admission import CapPlan
    from cpuwheels.kernels.request import KernelRequest

BUILD = "build"
"""Folder of the libraries within the result, where projects that are built by hand have it."""

_HEADERS = (".h", ".hpp", ".hh", ".inl", ".inc", ".embed")


@dataclass(frozen=True)
class Project:
    """What is compiled.

    Attributes:
        kind: Names its entries in the store, its logs, and its paths inside results.
        title: For people.
        source: Its tree, read only.
        digest: Names the tree's content.
        options: Entries of CMake's cache.
        libraries: Libraries that are wanted, by the names of their targets.
        shared: Whether they are shared, for a wheel; static ones, with headers, are for kernels that link them.
    """

    kind: str
    title: str
    source: Path
    digest: str
    options: Mapping[str, str]
    libraries: tuple[str, ...]
    shared: bool = False

    def key(self, request: KernelRequest) -> str:
        """Return the key of the compiled project: a digest of everything it depends on."""
        return make_key(
            layout=1,
            project=[self.kind, self.digest, *self.libraries],
            options=dict(self.options),
            steering=tree_digest(request.root / "cmake", _steering_files(request.target.id)),
            machine=request.target.machine,
            toolchain=request.toolchain.digest,
            cmake=request.environment.tools["cmake"],
            **({"shared": True} if self.shared else {}),
        )


def get_project(
    context: BuildContext, project: Project, request: KernelRequest, plan: CapPlan, cache: CompilerCache | None
) -> Path:
    """Return a folder with the project's headers, as they lie in its tree, and its libraries in ``build/``.

    Args:
        context: The run; its store keeps the result, and an unfinished build.
        project: What is compiled.
        request: The kernels that it is for, with their toolchain and tools.
        plan: The cap; its gate is already open.
        cache: The compiler cache, if one is to be used.

    Raises:
        ConfigureError: CMake stopped.
        CompileError: A file did not compile, or a library is not where it should be.
        MemoryCapError: One file is known to need more memory than there is.
        OutOfMemoryError: A compiler was killed for memory.
    """
    key = project.key(request)
    kind, store, reporter, logs = f"{project.kind}-built", context.store, context.reporter, context.logs

    def fill(folder: Path, work: _Work) -> None:
        work.prepare()
        identity = make_key(toolchain=request.toolchain.digest, project=project.digest)
        launchers = replace(
            Launchers.behind(plan.gate, work.ledger, cache, identity),
            confinement=confinement(context, request, work.folder, plan.gate, cache),
        )
        env = build_variables(request.environment, work.folder, work.values, {}, launchers)
        work.configure(request, launchers, env, logs / f"{project.kind}-configure.log")
        log = logs / f"{project.kind}-compile.log"
        reporter.info(f"compiling {project.title}; log: {log}")
        ninja = request.environment.scripts / "ninja"
        with gate_session(plan, work.outputs(), work.ledger) as session:
            run_ninja(ninja, work.build, project.libraries, env, launchers, session, reporter, log)
        work.collect(folder)
        remove_tree(work.folder)

    def make(folder: Path) -> None:
        with store.working(project.kind, key) as place:
            fill(folder, _Work(project, place))

    return store.get(kind, key, make)


class _Work:
    """The folder of one build; going on with it is safe, since it is named after the project's key."""

    def __init__(self, project: Project, folder: Path) -> None:
        self.folder = folder
        self.source = folder / project.kind
        self.build = folder / BUILD
        self.values = folder / "toolchain-values.cmake"
        self.ledger = folder / LEDGER
        self._init_cache = folder / "init-cache.cmake"
        self._prepared = folder / "prepared"
        self._project = project

    def prepare(self) -> None:
        """Copy the sources, unless that was finished before, since the machine was started.

        A project may write among them.
        """
        if is_complete(self._prepared):
            os.utime(self.folder)  # somebody is going on with it
            return
        with storage_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            empty_folder(self.folder)
            ignore = skip_manifest(self._project.source)
            shutil.copytree(self._project.source, self.source, symlinks=True, ignore=ignore)
            mark_complete(self._prepared)

    def configure(self, request: KernelRequest, launchers: Launchers, env: Mapping[str, str], log: Path) -> None:
        """Run CMake's configuration; with the same settings as before it finds everything as it was."""
        cmake, name = request.root / "cmake", self._project.kind
        entries = {
            "CMAKE_TOOLCHAIN_FILE": str(cmake / "toolchains" / f"{request.target.id}.cmake"),
            "CMAKE_PROJECT_TOP_LEVEL_INCLUDES": str(cmake / "project.cmake"),
            "CMAKE_DISABLE_FIND_PACKAGE_Git": "ON",
            "CMAKE_MAKE_PROGRAM": str(request.environment.scripts / "ninja"),
            "CMAKE_EXPORT_COMPILE_COMMANDS": "ON",
            **launchers.variables(),
            **self._project.options,
        }
        maps = {self.source: f"{STABLE_ROOT}/{name}", self.build: f"{STABLE_ROOT}/{name}-build"}
        write_atomic(self._init_cache, cache_text(entries))
        write_atomic(self.values, toolchain_text(request.toolchain, maps, self.build))
        run_cmake(
            self._project.title,
            request.environment,
            self.source,
            self.build,
            self._init_cache,
            env=env,
            launchers=launchers,
            log=log,
            next_step="read the log; another version may need other options",
        )

    def outputs(self) -> list[str]:
        """Return the object files that the build can make, relative to the build folder."""
        path = self.build / "compile_commands.json"
        entries = parse_as(list[dict[str, str]], path.read_bytes(), path)
        prefix = f"{self.build}/"
        return sorted({entry["output"].removeprefix(prefix) for entry in entries if "output" in entry})

    def collect(self, folder: Path) -> None:
        """Fill a store folder with libraries, headers for static ones, and the ledger.

        Raises:
            CompileError: A library is not where it should be.
        """
        (folder / BUILD).mkdir()
        for name in self._project.libraries:
            library = self.build / f"lib{name}.{'so' if self._project.shared else 'a'}"
            if not library.is_file():
                raise CompileError(
                    f"{self._project.title} was compiled, but has no {library.name}",
                    where=self.build,
                    next_step="correct its options for this version",
                )
            shutil.copy(library, folder / BUILD / library.name)
        for header in () if self._project.shared else sorted(self.source.rglob("*")):
            if header.suffix in _HEADERS and header.is_file():
                place = folder / header.relative_to(self.source)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(header, place)
        if self.ledger.is_file():
            shutil.copyfile(self.ledger, folder / LEDGER)


def _steering_files(target: str) -> list[str]:
    return ["project.cmake", "toolchains/gnu.cmake", f"toolchains/{target}.cmake"]
