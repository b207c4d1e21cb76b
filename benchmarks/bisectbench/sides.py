"""The two sides: ``cpuwheels bisect``, and ``git bisect run`` with upstream's build and a compiler cache."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import sysconfig
import time
from pathlib import Path
from typing import TYPE_CHECKING

from buildbench.setting import upstream_options
from buildbench.unsteered import needed_settings
from uv import find_uv_bin

from bisectbench.checks import SCRIPTS
from bisectbench.results import OURS, THEIRS, Run, Step
from bisectbench.upstream import CHECK
from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import BisectError
from cpuwheels.core.filesystem import remove_tree, write_atomic
from cpuwheels.core.process import run
from cpuwheels.core.tree_faults import RESERVED
from cpuwheels.fetch.git import Git
from cpuwheels.kernels.cmake_cache import KERNEL_EPOCH
from cpuwheels.kernels.configure import toolchain_values
from cpuwheels.kernels.request import configurations
from cpuwheels.kernels.workspace import Workspace

if TYPE_CHECKING:
    from buildbench.setting import Setting

    from bisectbench.history import Fault, History

_THEIR_CACHE = "their-ccache"
KEPT = (_THEIR_CACHE, "cache/kernels")
"""Folders that earlier searches of either side left in the benchmark's folder."""

_BENCHMARKS = Path(__file__).parents[1]


class Ours:
    """``cpuwheels bisect``, in stores of the benchmark's own.

    Args:
        setting: What both sides build with.
        history: The repository.
    """

    name = OURS

    def __init__(self, setting: Setting, history: History) -> None:
        self._setting, self._history = setting, history

    def bisect(self, fault: Fault, good: str) -> Run:
        """Return what a bisection took, begun anew with what the stores hold.

        Raises:
            CommandError: It failed.
        """
        setting, paths = self._setting, self._setting.paths
        script = _script(setting.work, fault)
        out = setting.work / "bisect" / fault
        remove_tree(out)
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "cpuwheels",
            *paths.as_arguments(),
            "bisect",
            "--target",
            setting.request.target.id,
            "--repo",
            self._history.folder,
            "--good",
            good,
            "--bad",
            "main",
            "--run",
            f"python {shlex.quote(str(script))}",
            "--no-requirements",
            "--out",
            out,
        ]
        began = time.monotonic()
        run(command, log=setting.logs / f"bisect-ours-{fault}.log", env=os.environ)
        wall = time.monotonic() - began
        result = json.loads((out / "result.json").read_text())
        steps = tuple(
            Step(
                commit=probe["commit"],
                verdict=probe["verdict"],
                seconds=round(probe["seconds"], 2),
                compiled=probe["wheel_from"] == "build",
            )
            for probe in result["probes"]
        )
        return Run(side=self.name, fault=fault, wall=round(wall, 2), first_bad=result["first_bad"] or "", steps=steps)


class Theirs:
    """``git bisect run`` in the repository itself.

    Args:
        setting: What both sides build with.
        history: The repository; its work tree is switched.
        workspace: Its source folder is the repository.
    """

    name = THEIRS

    def __init__(self, setting: Setting, history: History, workspace: Workspace) -> None:
        self._setting, self._history, self._workspace = setting, history, workspace

    def bisect(self, fault: Fault, good: str) -> Run:
        """Return what a bisection took, with what the compiler cache holds.

        Raises:
            CommandError: It failed.
            BisectError: It found nothing.
        """
        work, repository = self._setting.work, self._history.folder
        steps, log = work / f"steps-{fault}.jsonl", self._setting.logs / f"bisect-theirs-{fault}.log"
        steps.unlink(missing_ok=True)
        file = self._write_step(fault, steps, log)
        step = [sys.executable, "-m", "bisectbench.upstream", str(file)]
        env = os.environ | {"PYTHONPATH": str(_BENCHMARKS)}
        began = time.monotonic()
        for command in (["start", "--first-parent", "main", good], ["run", *step]):
            run(["git", "-C", repository, "bisect", *command], log=log, env=env)
        wall = time.monotonic() - began
        found = Git(repository).ask("rev-parse", "refs/bisect/bad").output.strip()
        for command in (["bisect", "reset"], ["clean", "-fdqx"]):
            run(["git", "-C", repository, *command], log=log, env=env)
        if not steps.is_file():
            raise BisectError("git bisect tested nothing", where=log)
        return Run(side=self.name, fault=fault, wall=round(wall, 2), first_bad=found, steps=_steps(steps))

    def _write_step(self, fault: Fault, steps: Path, log: Path) -> Path:
        work, tree, python = self._setting.work, self._workspace.source, self._setting.request.environment.python
        wheels, site = work / "their-wheels", work / "their-site"
        install: list[str | Path] = [
            find_uv_bin(),
            "pip",
            "install",
            "--python",
            python,
            "--no-deps",
            "--no-index",
            "--prerelease",
            "allow",
            "--find-links",
            wheels,
            "--target",
            site,
            "vllm",
        ]
        step = {
            "commands": {
                "build": [
                    find_uv_bin(),
                    "build",
                    "--wheel",
                    "--no-build-isolation",
                    "--python",
                    python,
                    "-o",
                    wheels,
                    tree,
                ],
                "install": install,
                CHECK: [python, _script(work, fault)],
            },
            "environment": self._environment(python.parent, site),
            "remove": [tree / "build", tree / "vllm.egg-info", wheels, site],
            "tree": tree,
            "log": log,
            "steps": steps,
        }
        file = work / f"step-{fault}.json"
        write_atomic(file, json.dumps(step, default=str, indent=1))
        return file

    def _environment(self, scripts: Path, site: Path) -> dict[str, str]:
        """Return the environment of upstream's build and of the check; ccache is found on PATH, as upstream looks."""
        setting, workspace = self._setting, self._workspace
        needed = needed_settings(setting, workspace) | upstream_options(setting.request.target)
        cache = setting.ccache
        return closed_environment(
            {
                "VLLM_TARGET_DEVICE": "cpu",
                "MAX_JOBS": str(setting.cpus),
                "CMAKE_ARGS": " ".join(f"-D{name}={value}" for name, value in needed.items()),
                "SOURCE_DATE_EPOCH": KERNEL_EPOCH,
                "CPUWHEELS_TOOLCHAIN_VALUES": str(workspace.toolchain_values),
                "CCACHE_DIR": str(setting.work / _THEIR_CACHE),
                "CCACHE_MAXSIZE": "50G",
                "CCACHE_CONFIGPATH": os.devnull,
                # Environments are made of hard links, and each new one changes the ctime of torch's headers.
                "CCACHE_SLOPPINESS": "include_file_ctime",
                "PYTHONPATH": str(site),
            },
            path_first=[scripts, *([cache.parent] if cache else [])],
        )


def upstream_workspace(setting: Setting) -> Workspace:
    """Return a workspace for upstream's project, with oneDNN's sources; the caller puts its sources there."""
    workspace = Workspace(setting.work / "upstream", configurations(setting.request.target)[0])
    # Where its setup.py builds: setuptools names the folder so.
    version = setting.request.environment.python_version.replace(".", "")
    workspace.build = workspace.source / "build" / f"temp.{sysconfig.get_platform()}-cpython-{version}"
    workspace.folder.mkdir(parents=True, exist_ok=True)
    remove_tree(workspace.onednn)
    if setting.request.onednn is not None:
        ignore = shutil.ignore_patterns(f"{RESERVED}*")
        shutil.copytree(setting.request.onednn.folder, workspace.onednn, symlinks=True, ignore=ignore)
    write_atomic(workspace.cpuinfo, workspace.configuration.cpuinfo)
    write_atomic(workspace.toolchain_values, toolchain_values(setting.request, workspace))
    return workspace


def _script(work: Path, fault: Fault) -> Path:
    path = work / f"check-{fault}.py"
    write_atomic(path, SCRIPTS[fault])
    return path


def _steps(path: Path) -> tuple[Step, ...]:
    verdicts = {0: "good", 125: "skip"}
    found = []
    for line in path.read_text().splitlines():
        step = json.loads(line)
        found.append(
            Step(
                commit=step["commit"],
                verdict=verdicts.get(step["code"], "bad"),
                seconds=round(sum(step["seconds"].values()), 2),
                compiled=True,
                parts=step["seconds"],
            )
        )
    return tuple(found)
