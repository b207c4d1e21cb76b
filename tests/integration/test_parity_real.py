"""Parity with the real torch: the harness, faults planted on purpose, and the whole command on the stand-in."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from extension import compile_extension, python_path
from layout import ROOT
from tiny_kernels import KERNELS
from tiny_project import Tiny

if TYPE_CHECKING:
    from cpuwheels.environment.sealed_env import Environment
    from cpuwheels.toolchain.result import Toolchain

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

MUTANTS = Path(__file__).parent / "mutants"
CASES = ROOT / "tests" / "parity"
LEAST_CAUGHT = 0.95
KINDS = {
    "wrong sign": ": sign|: direction|: subtracted",
    "tail of a vector": ": tail|: rest of 16",
    "wrong rounding": ": truncated|: halves",
    "missing mask": ": no mask|: no window|: mask off by one",
    "wrong stride": ": stride",
    "wrong head": ": heads interleaved|: first head|: head's neighbour|: another head's sink",
    "ignored argument": ": no (scale|weight|epsilon|zero point|slopes|sinks|soft cap|key)|: (offset|inverse) ignored",
    "not written": " not written",
    "written beside": ": writes ",
    "changed input": ": input spoilt",
    "different bits": ": another result now and then|: depends on threads",
    "not a number lost": ": not a number becomes 0",
    "saturation": ": lowest is -127|: highest is 126|: wraps",
}
"""Patterns of the names of faults."""


def with_pytest(environment: Environment) -> dict[str, str]:
    """Return the variables with which the environment's Python also finds what these tests run with."""
    return os.environ | {"PYTHONPATH": python_path(environment)}


def test_the_harness_finds_what_it_should(environment: Environment) -> None:
    folder = ROOT / "tests" / "harness"
    options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--confcutdir", folder]
    command = [environment.python, "-m", "pytest", *options, folder]
    done = subprocess.run(command, env=with_pytest(environment), text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 100


def catch(environment: Environment, library: Path, *faults: str) -> dict[str, dict[str, Any]]:
    """Return for each fault what finds it; "" stands for the library without one."""
    command = [environment.python, MUTANTS / "catch.py", CASES, library, *faults]
    # Several programs share the CPUs; threads that wait for others should not use them up.
    variables = with_pytest(environment) | {"OMP_WAIT_POLICY": "passive"}
    done = subprocess.run(command, env=variables, text=True, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def found(
    environment: Environment, toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """What finds the faults in operators that are written plainly; test_planted_real.py has those in upstream's own."""
    library = tmp_path_factory.mktemp("mutants") / "plain.abi3.so"
    return catch(environment, compile_extension(environment, toolchain, KERNELS, library))


def share(found: dict[str, dict[str, Any]], *levels: str) -> float:
    """Return the share of the faults that cases of some levels find."""
    return sum(answer.get("level") in levels for fault, answer in found.items() if fault) / (len(found) - 1)


def print_table(found: dict[str, dict[str, Any]]) -> None:
    """Print what finds each fault; pytest shows it with -s, or if something is wrong."""
    for fault, answer in found.items():
        if fault:
            print(f"{fault} | {answer['case'] or 'not found'} | {answer.get('problem', '')}")
    for levels in (["smoke"], ["smoke", "full"]):
        print(f"{levels[-1]}: {share(found, *levels):.1%} of {len(found) - 1} faults")


def test_without_a_fault_every_case_of_every_operator_is_right(found: dict[str, dict[str, Any]]) -> None:
    assert "problem" not in found[""], found[""]
    assert len(found[""]["tried"]) == 11
    assert min(found[""]["tried"].values()) > 0, found[""]


def test_planted_faults_are_found(found: dict[str, dict[str, Any]]) -> None:
    print_table(found)
    assert len(found) > 150
    assert share(found, "smoke") >= LEAST_CAUGHT
    assert share(found, "smoke", "full") >= LEAST_CAUGHT


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_fault_is_planted_and_found(found: dict[str, dict[str, Any]], kind: str) -> None:
    of_kind = {fault: answer["case"] for fault, answer in found.items() if re.search(KINDS[kind], fault)}
    assert of_kind
    assert all(of_kind.values()), of_kind


@pytest.fixture(scope="module")
def checked(tiny: Tiny, tiny_wheel: Path) -> subprocess.CompletedProcess[str]:
    """Parity of the stand-in's wheel, whose operators have no cases."""
    return tiny.run("parity", "x86", "--level", "smoke", "--wheel", tiny_wheel)


def test_an_operator_without_a_case_fails_by_its_name(
    checked: subprocess.CompletedProcess[str], tiny_wheel: Path
) -> None:
    assert checked.returncode == 34, checked.stderr
    for operator in ("scale", "numa_nodes", "count_words"):
        assert operator in checked.stderr
    report = json.loads((tiny_wheel.parent / "parity.json").read_text())
    assert {library["name"] for library in report["libraries"]} == {"_C", "_C_AVX2"}
    assert report["libraries"][0]["untested"] == ["count_words", "numa_nodes", "scale"]
    assert "count_words" in (tiny_wheel.parent / "parity.html").read_text()
    assert (tiny_wheel.parent / "parity.xml").is_file()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_text("no wheel"), "is not a wheel"),
        (lambda path: None, "is not there"),  # noqa: ARG005
    ],
)
def test_what_is_no_wheel_has_its_own_exit_code(tiny: Tiny, tmp_path: Path, make, message: str) -> None:
    path = tmp_path / "vllm-0.1.0+cpu-cp38-abi3-manylinux_2_28_x86_64.whl"
    make(path)
    done = tiny.run("parity", "x86", "--wheel", path)
    assert done.returncode == 35
    assert message in done.stderr
    assert list(tmp_path.glob("parity*")) == []
