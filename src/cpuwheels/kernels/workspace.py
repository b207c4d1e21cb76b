"""The folder a kernel build happens in; it outlives an interruption, so the next run goes on from there."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

from cpuwheels.kernels.result import LEDGER
from cpuwheels.storage import remove_tree, storage_errors, write_atomic
from cpuwheels.store import MANIFEST

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.kernels.request import KernelRequest


class Workspace:
    """Paths of one kernel build, and how far it is.

    Args:
        folder: Named after the kernels' key, so it is only ever resumed with the same inputs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source = folder / "vllm"
        self.onednn = folder / "onednn"
        self.build = folder / "build"
        self.generated = (self.build / "attention", self.build / "narrow")
        self.cpuinfo = folder / "cpuinfo"
        self.init_cache = folder / "init-cache.cmake"
        self.toolchain_values = folder / "toolchain-values.cmake"
        self.ledger = folder / LEDGER
        self.gate = folder / "gate"
        self.unused = folder / "onednn-unused.txt"
        self.modules_list = self.build / "cpuwheels-modules.txt"
        self.libraries_list = self.build / "cpuwheels-libraries.txt"
        self._prepared = folder / "prepared"
        self._configured = folder / "configured"

    def prepare(self, request: KernelRequest) -> None:
        """Copy the sources, unless that was finished before.

        The trees in the store are never built in: upstream's build generates headers among its sources.
        """
        if self._prepared.is_file():
            os.utime(self.folder)  # somebody is going on with it
            return
        with storage_errors(self.folder):
            remove_tree(self.folder)
            self.folder.mkdir(parents=True)
            ignore = shutil.ignore_patterns(MANIFEST)
            shutil.copytree(request.source.folder, self.source, symlinks=True, ignore=ignore)
            shutil.copytree(request.onednn.folder, self.onednn, symlinks=True, ignore=ignore)
            write_atomic(self.cpuinfo, request.target.cpuinfo)
            write_atomic(self._prepared, "")

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

    def outputs(self) -> list[str]:
        """Return the object files that CMake's build can make, relative to the build folder, as compilers are told."""
        prefix = f"{self.build}/"
        return sorted({entry["output"].removeprefix(prefix) for entry in self.compilations() if "output" in entry})

    def compilations(self) -> list[dict[str, str]]:
        """Return CMake's compilation database: ``file`` and ``output`` of every compilation, among others."""
        entries: list[dict[str, str]] = json.loads((self.build / "compile_commands.json").read_text(encoding="utf-8"))
        return entries

    def modules(self) -> list[str]:
        """Return the extension modules that upstream's CMake defines for this target."""
        return self.modules_list.read_text().split()

    def libraries(self) -> list[Path]:
        """Return the shared libraries that modules have in common, see ``cmake/steer/shared.cmake``."""
        names = self.libraries_list.read_text().split() if self.libraries_list.is_file() else []
        return [self.build / f"lib{name}.so" for name in names]

    def module(self, name: str) -> Path:
        """Return the file of an extension module."""
        return self.build / f"{name}.abi3.so"

    def link_maps(self) -> list[Path]:
        """Return the linker's maps of all modules and libraries."""
        libraries = [path.stem.removeprefix("lib") for path in self.libraries()]
        return [self.build / f"{name}.map" for name in (*self.modules(), *libraries)]
