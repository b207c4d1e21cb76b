"""Upstream's CMake project as it is: its own defaults, with the compiler, torch and oneDNN that ours are built with.

CMake gets the options that upstream's setup.py passes for the CPU target. Three more are added: what the compiler needs
to work at all (toolchain file), the place of oneDNN's sources, and the text that our patch reads in place of
/proc/cpuinfo, so that both sides build the same libraries.
"""

from __future__ import annotations

import filecmp
import shutil
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from buildbench.edit import edit_kernel
from buildbench.measure import Usage, measure
from buildbench.results import Measured
from buildbench.setting import upstream_options
from buildbench.upstream_wheel import write_upstream_wheel
from cpuwheels.config.installation import version_text
from cpuwheels.core.environ import closed_environment
from cpuwheels.core.filesystem import remove_tree, write_atomic
from cpuwheels.core.process import run
from cpuwheels.kernels.cmake_cache import KERNEL_EPOCH
from cpuwheels.kernels.configure import toolchain_values
from cpuwheels.kernels.memory.ledger import read_records
from cpuwheels.kernels.request import KERNEL_INPUTS, configurations
from cpuwheels.kernels.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from buildbench.setting import Setting
    from cpuwheels.kernels.memory.ledger import JobRecord


class Unsteered:
    """A build folder of upstream's project.

    Args:
        setting: What is built.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.workspace = Workspace(setting.work / "unsteered", configurations(setting.request.target)[0])
        self._mark = self.workspace.folder / "built-of.txt"

    def ready(self) -> bool:
        """Return whether everything is built here, so that only an edit is left to build."""
        return self._mark.is_file() and self._mark.read_text() == self.setting.unsteered_fingerprint

    def cold(self, log: Path) -> Measured:
        """Configure and build from nothing.

        Raises:
            CommandError: CMake or ninja failed.
        """
        remove_tree(self.workspace.folder)
        self.workspace.prepare(self.setting.request)
        write_atomic(self.workspace.toolchain_values, toolchain_values(self.setting.request, self.workspace))
        measured = self._measured(log, configure=True)
        write_atomic(self._mark, self.setting.unsteered_fingerprint)
        return measured

    def edited(self, log: Path, kernel: str) -> Measured:
        """Build again after a change to one file.

        Raises:
            CommandError: ninja failed.
        """
        self._measured(log, configure=False)  # from an interrupted run, which may have left it incomplete
        edit_kernel(self.workspace.source, kernel)
        return self._measured(log, configure=False)

    def wheel(self, log: Path, ours: Path, out: Path) -> Measured:
        """Build upstream's kernels without our patches, and make a wheel of ours with them.

        The folder is of no use for an edit afterwards.

        Args:
            log: Log file.
            ours: Our wheel, which has everything else.
            out: Folder of the wheel.

        Returns:
            What compiling the files took that have patches.

        Raises:
            CommandError: ninja or another tool failed.
            StoreError: A folder cannot be written.
        """
        self._mark.unlink(missing_ok=True)
        _copy_changed(self.setting.plain(), self.workspace.source)
        measured = self._measured(log, configure=False)
        modules = {name: self.workspace.module(name) for name in self.workspace.modules()}
        work = self.workspace.folder / "wheel"
        write_upstream_wheel(ours, modules, out, work=work, strip=self.setting.request.toolchain.strip)
        return measured

    def sizes(self, log: Path) -> tuple[dict[str, int], dict[str, int]]:
        """Return the bytes of each module as built, and of a stripped copy.

        Raises:
            CommandError: The stripper failed.
        """
        built = {name: self.workspace.module(name) for name in self.workspace.modules()}
        copy = self.workspace.folder / "stripped.so"
        stripped = {}
        for name, path in built.items():
            run([self.setting.request.toolchain.strip, "--strip-unneeded", "-o", copy, path], log=log)
            stripped[name] = copy.stat().st_size
        copy.unlink(missing_ok=True)
        return {name: path.stat().st_size for name, path in built.items()}, stripped

    def configure_command(self) -> list[str | Path]:
        """Return CMake's command line."""
        entries = unsteered_settings(self.setting, self.workspace)
        return [
            self.setting.request.environment.scripts / "cmake",
            *("-S", self.workspace.source, "-B", self.workspace.build, "-G", "Ninja", "-Wno-dev"),
            "--no-warn-unused-cli",
            *(f"-D{name}={value}" for name, value in entries.items()),
        ]

    def environment(self) -> dict[str, str]:
        """Return the environment of CMake and ninja: as ours, with memgate in front of every job but without a gate.

        If nothing else is set, CMake takes launchers from there (its manual, CMAKE_<LANG>_COMPILER_LAUNCHER).
        """
        launcher = ";".join([str(self.setting.memgate), "--ledger", str(self.workspace.ledger), "--"])
        variables = {
            "VLLM_TARGET_DEVICE": "cpu",
            "SOURCE_DATE_EPOCH": KERNEL_EPOCH,
            "CPUWHEELS_TOOLCHAIN_VALUES": str(self.workspace.toolchain_values),
        }
        for language in ("C", "CXX"):
            variables[f"CMAKE_{language}_COMPILER_LAUNCHER"] = f"exec;{launcher}"
            variables[f"CMAKE_{language}_LINKER_LAUNCHER"] = launcher
        return closed_environment(variables, path_first=[self.setting.request.environment.scripts])

    def _measured(self, log: Path, *, configure: bool) -> Measured:
        began = datetime.now(UTC)
        before = len(read_records(self.workspace.ledger))
        env, stages = self.environment(), {}
        total: Usage | None = None
        if configure:
            total = measure(self.configure_command(), log=log, env=env)
            stages["configure"] = round(total.wall, 2)
        ninja = self.setting.request.environment.scripts / "ninja"
        command: list[str | Path] = [
            ninja,
            "-C",
            self.workspace.build,
            f"-j{self.setting.cpus}",
            *self.workspace.modules(),
        ]
        usage = measure(command, log=log, env=env)
        stages["build"] = round(usage.wall, 2)
        total = total.then(usage) if total else usage
        records = read_records(self.workspace.ledger)[before:]
        return measured_run(began, total, records, kernels=total.wall, stages=stages)


def _copy_changed(origin: Path, target: Path) -> None:
    """Give a build's sources the content of others, and a new time only to files that differ."""
    parts = (origin / name for name in KERNEL_INPUTS)
    for path in chain.from_iterable([part, *part.rglob("*")] for part in parts):
        copy = target / path.relative_to(origin)
        changed = not copy.is_file() or not filecmp.cmp(path, copy, shallow=False)
        if path.is_file() and not path.is_symlink() and changed:
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


def unsteered_settings(setting: Setting, workspace: Workspace) -> dict[str, str]:
    """Return the cache entries of upstream's project."""
    request = setting.request
    environment = request.environment
    upstream = {
        # setup.py, cmake_build_ext.configure(), for a release build
        "CMAKE_BUILD_TYPE": "RelWithDebInfo",
        "VLLM_TARGET_DEVICE": "cpu",
        "VLLM_PYTHON_EXECUTABLE": str(environment.python),
        "VLLM_PYTHON_PATH": str(environment.site_packages),
        "FETCHCONTENT_BASE_DIR": str(workspace.source / ".deps"),
        "CMAKE_JOB_POOL_COMPILE:STRING": "compile",
        "CMAKE_JOB_POOLS:STRING": f"compile={setting.cpus}",
    }
    return upstream | needed_settings(setting, workspace) | upstream_options(request.target)


def needed_settings(setting: Setting, workspace: Workspace) -> dict[str, str]:
    """Return the cache entries without which this compiler does not work, and none of the steering's."""
    request = setting.request
    environment = request.environment
    return {
        "CMAKE_TOOLCHAIN_FILE": str(request.root / "cmake" / "toolchains" / f"{request.target.id}.cmake"),
        "CMAKE_PROJECT_TOP_LEVEL_INCLUDES": str(Path(__file__).with_suffix(".cmake")),
        "CMAKE_MAKE_PROGRAM": str(environment.scripts / "ninja"),
        "FETCHCONTENT_SOURCE_DIR_ONEDNN": str(workspace.onednn),
        "FETCHCONTENT_FULLY_DISCONNECTED": "ON",
        "CPUWHEELS_STEERING": str(request.root / "cmake"),
        "CPUWHEELS_PYTHON": str(environment.python),
        "CPUWHEELS_PYTHON_VERSION": environment.python_version,
        "CPUWHEELS_PYTHON_INCLUDE_DIRS": ";".join(map(str, request.toolchain.python_include)),
        "CPUWHEELS_CPUINFO": str(workspace.cpuinfo),
    }


def measured_run(
    began: datetime, usage: Usage, records: Sequence[JobRecord], *, kernels: float | None, stages: Mapping[str, float]
) -> Measured:
    """Return a run of either side from what it took and memgate's records of its jobs."""
    return Measured(
        began=began.isoformat(timespec="seconds"),
        project=version_text(),
        others_cpu=round(usage.others_cpu, 2),
        pace=round(usage.pace, 5),
        wall=round(usage.wall, 2),
        kernels=None if kernels is None else round(kernels, 2),
        cpu=round(usage.cpu, 2),
        jobs_cpu=round(sum(record.cpu_seconds for record in records), 2),
        jobs=len(records),
        largest_job=max((record.bytes for record in records), default=0),
        peak=usage.peak,
        group_peak=usage.group_peak,
        stages=dict(stages),
    )
