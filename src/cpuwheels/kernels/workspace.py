"""The folder a kernel build happens in; it outlives an interruption, so the next run goes on from there."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from cpuwheels.core.boot import is_complete, mark_complete
from cpuwheels.core.filesystem import empty_folder, remove_tree, storage_errors, write_atomic
from cpuwheels.core.models import parse_as
from cpuwheels.core.sealed_entry import skip_manifest
from cpuwheels.kernels.confined import require_files
from cpuwheels.kernels.executed import check_links
from cpuwheels.kernels.memory.ledger import LEDGER
from cpuwheels.kernels.request import KERNEL_INPUTS

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.kernels.request import Configuration, KernelRequest


class Workspace:
    """Paths of one kernel build, and its progress.

    Args:
        folder: Named after the kernels' key, so it is only ever resumed with the same inputs.
        configuration: The configuration of upstream's project; those of one target share all but their own builds.
    """

    def __init__(self, folder: Path, configuration: Configuration) -> None:
        own = folder / configuration.name
        self.folder = folder
        self.configuration = configuration
        self.first_build = folder / "build"
        self.source = folder / "vllm"
        self.onednn = folder / "onednn"
        self.acl = folder / "acl"
        self.build = own / "build"
        self.openmp = self.build / "gomp_shim" / "libgomp.so"
        self.generated = (self.build / "attention", self.build / "narrow")
        self.cpuinfo = own / "cpuinfo"
        self.init_cache = own / "init-cache.cmake"
        self.toolchain_values = own / "toolchain-values.cmake"
        self.ledger = folder / LEDGER
        self.gate = folder / "gate"
        self.unused = folder / "onednn-unused.txt"
        self.modules_list = self.build / "cpuwheels-modules.txt"
        self.libraries_list = self.first_build / "cpuwheels-libraries.txt"
        self.onednn_calls = self.first_build / "shared" / "called.txt"
        self._prepared = folder / "prepared"
        self._own_onednn = folder / "prepared-onednn"
        self._configured = own / "configured"

    def prepare(self, request: KernelRequest, *, has_onednn: bool = False) -> None:
        """Copy the sources, unless that was finished before, since the machine was started.

        The trees in the store are never built in: upstream's build generates headers among its sources.

        Args:
            request: What is built.
            has_onednn: Whether nothing of oneDNN is built, and only its headers are read.
        """
        with storage_errors(self.folder):
            if is_complete(self._prepared):
                os.utime(self.folder)  # somebody is going on with it
            else:
                self._copy(request)
            if request.onednn is not None:
                self._place_onednn(request.onednn.folder, copy=not has_onednn)
            write_atomic(self.cpuinfo, self.configuration.cpuinfo)

    def _copy(self, request: KernelRequest) -> None:
        check_links(request.source.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        empty_folder(self.folder)
        self.source.mkdir()
        # Nothing else of the source is there to be read or run: its content is in no key of kernels.
        for part in KERNEL_INPUTS:
            origin = request.source.folder / part
            if origin.is_dir():
                shutil.copytree(origin, self.source / part, symlinks=True)
            elif origin.is_file():
                shutil.copy2(origin, self.source / part)
        mark_complete(self._prepared)

    def _place_onednn(self, entry: Path, *, copy: bool) -> None:
        if copy and is_complete(self._own_onednn):
            return
        # A link is made anew each time: what was built here before may have left another one.
        self._own_onednn.unlink(missing_ok=True)
        remove_tree(self.onednn)
        if copy:
            shutil.copytree(entry, self.onednn, symlinks=True, ignore=skip_manifest(entry))
            mark_complete(self._own_onednn)
        else:
            self.onednn.symlink_to(entry)

    def link_acl(self, compiled: Path | None) -> None:
        """Give the compiled Arm Compute Library, if there is one, a place next to the sources."""
        self.acl.unlink(missing_ok=True)
        if compiled is not None:
            self.acl.symlink_to(compiled)

    @property
    def is_first(self) -> bool:
        """Whether this is the first configuration, which makes what the others use."""
        return self.build == self.first_build

    def is_configured(self, init_cache: str, values: str) -> bool:
        """Return whether CMake finished here with the same settings."""
        return (
            self._configured.is_file()
            and self.init_cache.read_text() == init_cache
            and self.toolchain_values.read_text() == values
        )

    def mark_configured(self) -> None:
        """Note that CMake finished."""
        write_atomic(self._configured, "")

    def forget_configuration(self) -> None:
        """Start over with an empty build folder: its settings have another origin."""
        self._configured.unlink(missing_ok=True)
        remove_tree(self.build)

    def require_files(self) -> None:
        """Refuse what a build left where its files should be, before any of it is opened.

        Raises:
            CompileError: One of them is no plain file.
        """
        require_files([self.build / "compile_commands.json", self.modules_list, self.libraries_list, self.ledger])
        require_files([*self.libraries(), *self.link_maps(), *map(self.module, self.modules())])

    def outputs(self) -> list[str]:
        """Return the object files that CMake's build can make, relative to the build folder, as compilers get them."""
        prefix = f"{self.build}/"
        return sorted({entry["output"].removeprefix(prefix) for entry in self.compilations() if "output" in entry})

    def compilations(self) -> list[dict[str, str]]:
        """Return CMake's compilation database: ``file`` and ``output`` of every compilation, among others."""
        path = self.build / "compile_commands.json"
        return parse_as(list[dict[str, str]], path.read_bytes(), path)

    def defined_modules(self) -> list[str]:
        """Return the extension modules that upstream's CMake defines for this target."""
        return self.modules_list.read_text().split()

    def modules(self) -> list[str]:
        """Return the extension modules that are made here; one that is not a kernel library is made only once."""
        names = self.configuration.names()
        return [name for name in self.defined_modules() if self.is_first or name in names]

    def libraries(self) -> list[Path]:
        """Return the shared libraries that modules have in common, see ``cmake/steer/shared.cmake``."""
        names = self.libraries_list.read_text().split() if self.libraries_list.is_file() else []
        return [self.first_build / f"lib{name}.so" for name in names]

    def lists(self) -> list[str]:
        """Return the targets that only write down what was compiled, see ``cmake/steer/shared.cmake``."""
        return ["cpuwheels_calls"] if self.is_first and self.libraries() else []

    def module(self, name: str) -> Path:
        """Return the file of an extension module."""
        return self.build / f"{name}.abi3.so"

    def link_maps(self) -> list[Path]:
        """Return the linker's maps of all modules and libraries that are made here."""
        libraries = [path.stem.removeprefix("lib") for path in self.libraries() if self.is_first]
        return [self.build / f"{name}.map" for name in (*self.modules(), *libraries)]
