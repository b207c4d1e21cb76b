"""Trying planted faults: a build that has all of them, and one process for each fault, operator and library."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plant import HERE, Fault, all_faults, plant

from cpuwheels.config.patch_series import load_series
from cpuwheels.source.patches import apply_series

if TYPE_CHECKING:
    from cpuwheels.source.result import Source

LEAVINGS = ".cpuwheels-*"
"""What the store has in the folder of a source."""


@dataclass(frozen=True)
class Bench:
    """Where trials run.

    Attributes:
        python: Interpreter with torch and what cases need.
        cases: Folder of the cases.
        libraries: The kernel libraries with planted faults, by name.
        version: vLLM's.
        fixed: Known faults that they do not have.
        onednn: Release of the oneDNN in them, which is upstream's own.
        work: Folder for what is needed meanwhile.
        env: Variables that the CPU needs.
        amx: Whether the CPU has AMX.
        at_once: How many processes run side by side.
    """

    python: Path
    cases: Path
    libraries: Mapping[str, Path]
    version: str
    fixed: tuple[str, ...]
    onednn: str
    work: Path
    env: Mapping[str, str]
    amx: bool
    at_once: int

    def without_faults(self) -> dict[str, dict[str, Any]]:
        """Return for each library what its cases give where no fault is chosen."""
        return {name: self._run(name, [[(0, "")]], ())[0] for name in self.libraries}

    def with_faults(self, baseline: Mapping[str, dict[str, Any]], *only: str) -> list[dict[str, Any]]:
        """Return what finds each fault, for each operator that has to find it and each library that has it.

        Args:
            baseline: What `without_faults` returned.
            only: Names of faults; all if there are none.
        """
        found: list[dict[str, Any]] = []
        for name in self.libraries:
            chosen = [
                (fault.number, operator)
                for fault in all_faults()
                for operator in fault.operators
                if self._has(fault, operator, name, baseline[name]["operators"]) and (not only or fault.name in only)
            ]
            parts = [chosen[start :: self.at_once] for start in range(self.at_once)]
            found += self._run(name, [part for part in parts if part], baseline[name]["known"])
        return found

    def _has(self, fault: Fault, operator: str, library: str, operators: Sequence[str]) -> bool:
        there = operator in operators and (not fault.libraries or library in fault.libraries)
        return there and (self.amx or not fault.amx)

    def _run(
        self, library: str, parts: Sequence[Sequence[tuple[int, str]]], known: Sequence[str]
    ) -> list[dict[str, Any]]:
        with ThreadPoolExecutor(self.at_once) as pool:
            lines = pool.map(lambda part: self._process(library, part, known), parts)
            return [answer | {"library": library} for answers in lines for answer in answers]

    def _process(self, library: str, trials: Sequence[tuple[int, str]], known: Sequence[str]) -> list[dict[str, Any]]:
        job = self.work / f"{library}-{trials[0][0]}-{trials[0][1]}.json"
        told = {"version": self.version, "fixed": self.fixed, "onednn": self.onednn, "trials": trials, "known": known}
        job.write_text(json.dumps(told))
        command = [self.python, HERE / "catch.py", self.cases, self.libraries[library], job]
        # Several processes share the CPUs; threads that wait for others should not use them up.
        env = os.environ | {"OMP_WAIT_POLICY": "passive", **self.env}
        with (job.with_suffix(".log")).open("w") as log:
            done = subprocess.run(command, env=env, text=True, stdout=subprocess.PIPE, stderr=log, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]


def planted_tree(source: Source, root: Path, target: str, folder: Path) -> tuple[str, ...]:
    """Write a source with every fault into a folder, and return the faults of upstream's that it does not have.

    It is built with ``--upstream-kernels``: the patches that fix kernels are applied here, before faults are planted.
    """
    shutil.copytree(source.folder, folder, symlinks=True, ignore=shutil.ignore_patterns(LEAVINGS))
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o200)
    fixes = [patch for patch in load_series(root).chosen(source.version, target, with_fixes=True) if patch.fixes]
    apply_series(fixes, root / "patches", folder)
    plant(folder, all_faults())
    return tuple(sorted({fault for patch in fixes for fault in patch.fixes}))
