"""Faults planted in upstream's own kernels, all of them in one build, and the parity that has to find them."""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cpuwheels.config.host import markers
from cpuwheels.config.options import ParityOptions
from cpuwheels.core.store import default_root
from cpuwheels.kernels.memory.limits import usable_cpus
from cpuwheels.pipeline.provenance import note_or_none
from cpuwheels.pipeline.test_environment import parity_environment
from cpuwheels.source.request import request_source
from cpuwheels.wheel.kernel_wheel import read_wheel
from layout import ROOT
from tiny_project import Tiny

sys.path.insert(0, str(ROOT / "tests" / "planted"))  # no package: its catch.py runs where torch is
from plant import all_faults
from table import RESULTS, share
from trials import Bench, planted_tree

if TYPE_CHECKING:
    from cpuwheels.config.context import BuildContext

pytestmark = [pytest.mark.slow, pytest.mark.timeout(5400)]

LEAST_FOUND = 0.95


@pytest.fixture(scope="module")
def bench(this: BuildContext, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """The build with all faults, installed."""
    folder = tmp_path_factory.mktemp("planted")
    source = request_source(None, None, this.matrix).get(this.store, this.reporter)
    fixed = planted_tree(source, ROOT, "x86", folder / "vllm")
    project = Tiny(ROOT, folder, folder / "dist", default_root())
    wheel = project.build("--source", folder / "vllm", "--upstream-kernels")
    found = read_wheel(wheel, this.target, markers(this.target, this.matrix.python[0]))
    with this.store.scratch("wheel") as work:
        note = note_or_none(wheel)
        assert note
        assert note.onednn
        place = parity_environment(this, found, ParityOptions(level="smoke", emulation=False), work)
        cpu = place.trials[0].cpu
        yield Bench(
            python=Path(cpu.python[0]),
            cases=place.tests,
            libraries={
                library.name: place.site / found.libraries[library.name]
                for library in this.target.libraries
                if not cpu.lacks(library.needs)
            },
            version=found.version,
            fixed=fixed,
            onednn=note.onednn.release,
            work=work,
            env=dict(cpu.environment),
            amx="amx_tile" in cpu.features,
            at_once=usable_cpus().count,
        )


@pytest.fixture(scope="module")
def right(bench: Bench) -> dict[str, dict[str, Any]]:
    """What the cases of each library give where no fault is chosen."""
    return bench.without_faults()


@pytest.fixture(scope="module")
def found(bench: Bench, right: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """What finds each fault; the table of docs/parity.md is made of it."""
    began = time.monotonic()
    trials = bench.with_faults(right)
    results = {
        "version": bench.version,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": processor(),
        "cpus": bench.at_once,
        "minutes": round((time.monotonic() - began) / 60),
        "cases": {name: answer["cases"] for name, answer in right.items()},
        "found": trials,
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    return trials


def processor() -> str:
    """Return the name of the CPU."""
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))


def test_without_a_fault_every_case_of_every_operator_is_right(right: dict[str, dict[str, Any]]) -> None:
    for library, answer in right.items():
        assert answer["wrong"] == {}, library
        assert answer["uncovered"] == [], library
        assert answer["cases"] > 1000, library


def test_every_operator_has_a_fault(right: dict[str, dict[str, Any]]) -> None:
    planted = {operator for fault in all_faults() for operator in fault.operators}
    assert {operator for answer in right.values() for operator in answer["operators"]} <= planted


def test_planted_faults_are_found(found: list[dict[str, Any]]) -> None:
    names = {fault.number: fault.name for fault in all_faults()}
    for trial in found:
        if not trial["case"]:
            print(f"not found by {trial['operator']} in {trial['library']}: {names[trial['fault']]}")
    assert len(found) > 500
    assert share(found, "smoke", "full") >= LEAST_FOUND


def test_a_fault_of_each_operator_is_found(found: list[dict[str, Any]]) -> None:
    cases: dict[tuple[str, str], list[str | None]] = defaultdict(list)
    for trial in found:
        cases[trial["library"], trial["operator"]].append(trial["case"])
    assert [key for key, of_operator in cases.items() if not any(of_operator)] == []
