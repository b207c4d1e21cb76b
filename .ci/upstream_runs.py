"""Runs of the reproducers: on two wheels, one of them patched, or on any one wheel without patches."""

from __future__ import annotations

import os
import re
import shutil
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from upstream_sources import OUTPUTS, ROOT, WHEELS, keep_json, load_json, load_reports

from cpuwheels.config.host import is_foreign, markers
from cpuwheels.config.options import ParityOptions
from cpuwheels.config.patch_series import load_series
from cpuwheels.core.concurrency import run_parallel
from cpuwheels.core.environ import closed_environment
from cpuwheels.core.process import run, signal_name
from cpuwheels.pipeline.test_environment import parity_environment, this_cpu
from cpuwheels.verification.onednn_isa import onednn_limit
from cpuwheels.verification.parity.openmp import WAITING
from cpuwheels.verification.parity.suite import no_core_files
from cpuwheels.wheel.kernel_wheel import read_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from upstream_sources import Report

    from cpuwheels.config.context import BuildContext
    from cpuwheels.verification.parity.run import ParityEnvironment
    from cpuwheels.wheel.kernel_wheel import KernelWheel

NOT_HERE = "exit 77"
"""How a reproducer ends that cannot show the fault: this version or library has no such operator, or the CPU."""
_LINES_SHOWN = 6
_AT_ONCE = 4
_KEEPING = threading.Lock()
_HIDDEN = re.compile(
    r"^frame #|^Exception raised from|^\s*$|/python3|^E?x?tension modules|^Fatal Python|MIDR_EL1 sysfs"
)
_STAND_IN = """
import enum, importlib.util, os, platform, sys, types
from pathlib import Path
import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ["LIBRARY"] + ".*")))
names = {"x86_64": "X86", "aarch64": "ARM", "s390x": "S390X"}
platforms = types.ModuleType("vllm.platforms")
platforms.CpuArchEnum = enum.Enum("CpuArchEnum", list(names.values()))
here = platforms.CpuArchEnum[names[platform.machine()]]
platforms.current_platform = types.SimpleNamespace(
    is_cpu=lambda: True, import_kernels=lambda: None, get_cpu_architecture=lambda: here
)
sys.modules["vllm"] = types.ModuleType("vllm")
sys.modules["vllm.platforms"] = platforms
"""


def run_both(context: BuildContext, wheels: Mapping[str, Path], only: Sequence[str]) -> int:
    """Run reproducers and tests on both wheels; return how many did not do what they have to."""
    features = _features(context)
    reports = _chosen(context.target.id, only)
    able = [one for one in reports if features.issuperset(one.features) and features.isdisjoint(one.lacking)]
    with _installed(context, wheels) as sides:
        wheel, patched = sides["patched"]
        about = {"machine": patched.machine, "version": wheel.version, "torch": patched.torch}
        environments = {kind: side for kind, (_, side) in sides.items()}
        run_parallel([partial(_try, environments, one, context.logs, about) for one in able], _AT_ONCE)
    problems = [problem for report in able for problem in judge(report, load_json(OUTPUTS)[report.slug])]
    for problem in problems:
        context.reporter.info(problem)
    for report in reports:
        if report not in able:
            context.reporter.info(f"{report.slug}: not run")
    context.reporter.info(f"{len(able)} reproducers, {len(problems)} problems")
    return len(problems)


def _features(context: BuildContext) -> frozenset[str]:
    """Return what reproducers may ask for: AMX only where oneDNN uses it, too."""
    if is_foreign(context.target):
        return frozenset()
    cpu = this_cpu(context)
    limit = onednn_limit(cpu, os.environ)
    held_back = limit is not None and limit.rules_out_amx
    return frozenset(feature for feature in cpu.features if not (held_back and feature.startswith("amx")))


def run_one(context: BuildContext, path: Path, only: Sequence[str]) -> int:
    """Run the reproducers on a wheel without patches and print a table; return how many show something unexpected."""
    reports = _chosen(context.target.id, only)
    results: dict[str, Any] = {}
    with _installed(context, {"unpatched": path}) as sides:
        wheel, side = sides["unpatched"]

        def attempt(report: Report) -> None:
            folder = _folder(side, report)
            log = context.logs / f"{report.slug}.log"
            libraries = [library for library in report.run_on if library in wheel.libraries]
            results[report.slug] = {library: _reproduce(side, report, library, folder, log) for library in libraries}

        run_parallel([partial(attempt, report) for report in reports], _AT_ONCE)
        about = {"version": wheel.version, "torch": side.torch, "machine": side.machine, "sha256": wheel.sha256}
    kept = load_json(WHEELS).get(path.name, {}).get("results", {}) if only else {}
    about["date"] = datetime.now(UTC).date().isoformat()
    keep_json(WHEELS, path.name, {**about, "results": dict(sorted((kept | results).items()))})
    width = max(len(report.slug) for report in reports)
    for report in reports:
        context.reporter.info(f"{report.slug:{width}}  {cell(report, results[report.slug])}")
    problems = [line for report in reports for line in judge_one(report, results[report.slug], wheel.version)]
    for problem in problems:
        context.reporter.info(problem)
    context.reporter.info(f"{len(reports)} reproducers on {path.name}, {len(problems)} problems")
    return len(problems)


def _chosen(target: str, only: Sequence[str]) -> list[Report]:
    series = load_series(ROOT).patches
    reports = [one for one in load_reports() if one.machine == target and one.patches(series)]
    return [one for one in reports if not only or one.slug in only]


@contextmanager
def _installed(
    context: BuildContext, wheels: Mapping[str, Path]
) -> Iterator[dict[str, tuple[KernelWheel, ParityEnvironment]]]:
    target, matrix = context.target, context.matrix
    with context.store.scratch("wheel") as work, no_core_files():
        sides = {}
        for kind, path in wheels.items():
            wheel = read_wheel(path, target, markers(target, matrix.python[0]), f"--{kind}")
            folder = work / kind
            folder.mkdir()
            sides[kind] = wheel, parity_environment(context, wheel, ParityOptions(emulation=is_foreign(target)), folder)
        yield sides


def judge(report: Report, found: Mapping[str, Any]) -> list[str]:
    """Return what is not as it has to be on two wheels."""
    wanted = {"unpatched": report.unpatched, "patched": "exit 0"}
    problems = [
        f"{report.slug}: {library}, {kind}: {both[kind]['outcome']} instead of {wanted[kind]}: {both[kind]['output']}"
        for library, both in found["libraries"].items()
        for kind in wanted
        if both[kind]["outcome"] != wanted[kind] or _raised(both[kind])
    ]
    tested = found["test"]
    if tested["patched"] != "passed" or tested["unpatched"] in {"passed", "skipped"}:
        problems.append(f"{report.slug}: test: {tested}")
    return problems


def judge_one(report: Report, found: Mapping[str, Mapping[str, str]], version: str) -> list[str]:
    """Return what is not as it has to be on one wheel without patches."""
    affected = any(patch.is_for(version, report.machine) for patch in report.patches(load_series(ROOT).patches))
    # Whether a CPU can show a fault is known to the reproducer alone.
    allowed = {"shown", "not on this CPU"} if affected else {"right", "not in this version"}
    if report.onednn:
        allowed.add("right")  # nothing tells which oneDNN is in somebody else's wheel
    return [
        f"{report.slug}: {library}: {shown(report, one)} where {' or '.join(sorted(allowed))} is expected: "
        f"{one['outcome']}: {one['output']}"
        for library, one in found.items()
        if shown(report, one) not in allowed
    ]


def shown(report: Report, one: Mapping[str, str]) -> str:
    """Return in words how a reproducer ended on a wheel without patches."""
    if one["outcome"] == NOT_HERE:
        words = re.match(r"not (?:on this CPU|in this version)", one["output"])
        return words[0] if words else "no reason"
    if _raised(one):
        return "an exception"
    if one["outcome"] == report.unpatched:
        return "shown"
    return "right" if one["outcome"] == "exit 0" else one["outcome"]


def cell(report: Report, found: Mapping[str, Mapping[str, str]]) -> str:
    """Return how a reproducer ended on a wheel's libraries."""
    ends: dict[str, list[str]] = {}
    for library, one in found.items():
        ends.setdefault(shown(report, one), []).append(f"`{library}`")
    return next(iter(ends)) if len(ends) == 1 else "; ".join(f"{end} ({', '.join(of)})" for end, of in ends.items())


def _raised(one: Mapping[str, str]) -> bool:
    """Return whether Python ended it with an exception: nothing that a reproducer does by itself."""
    return one["output"].startswith("Traceback ")


def _folder(side: ParityEnvironment, report: Report) -> Path:
    folder = side.work / report.slug
    folder.mkdir()
    for name in ("reproduce.py", "test_upstream.py"):
        shutil.copyfile(report.folder / name, folder / name)
    (folder / "conftest.py").write_text(_STAND_IN, encoding="utf-8")
    return folder


def _reproduce(side: ParityEnvironment, report: Report, library: str, folder: Path, log: Path) -> dict[str, str]:
    status, output = _run(side, report, library, [folder / "reproduce.py"], log)
    outcome = signal_name(-status) if status < 0 else f"exit {status}"
    return {"outcome": outcome, "output": clean(output)}


def _try(sides: Mapping[str, ParityEnvironment], report: Report, logs: Path, about: Mapping[str, str]) -> None:
    libraries: dict[str, Any] = {}
    test: dict[str, str] = {}
    for kind, side in sides.items():
        folder = _folder(side, report)
        log = logs / f"{report.slug}-{kind}.log"
        for library in report.run_on:
            libraries.setdefault(library, {})[kind] = _reproduce(side, report, library, folder, log)
        arguments: list[str | Path] = [
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-c",
            os.devnull,
            "--confcutdir",
            folder,
        ]
        status, output = _run(side, report, report.run_on[0], [*arguments, folder / "test_upstream.py"], log)
        ended = signal_name(-status) if status < 0 else "failed"
        test[kind] = ended if status else "passed" if " passed" in output else "skipped"
    with _KEEPING:
        keep_json(OUTPUTS, report.slug, {"libraries": libraries, "test": test, **about})


def _run(
    side: ParityEnvironment, report: Report, library: str, arguments: Sequence[str | Path], log: Path
) -> tuple[int, str]:
    cpu = next(trial.cpu for trial in side.trials if trial.cpu.tries(library))
    # Reproducers that are killed have printed what they have to say.
    variables = {"PYTHONUNBUFFERED": "1", "LIBRARY": library, **report.env}
    env = closed_environment({**WAITING, **cpu.environment, **variables})
    confined = side.confine([*cpu.python, *arguments], env)
    lines: list[str] = []
    done = confined.ended(run(confined.argv, log=log, env=confined.env, check=False, on_line=lines.append))
    return done.returncode, "\n".join(lines)


def clean(output: str) -> str:
    """Return the first lines of an output, without addresses and paths of this machine."""
    lines = [line.rstrip() for line in output.splitlines() if not _HIDDEN.search(line)]
    text = "\n".join(lines[:_LINES_SHOWN])
    return re.sub(r"(/[\w.+-]+){2,}", "...", re.sub(r"0x[0-9a-f]{4,}", "0x...", text))
