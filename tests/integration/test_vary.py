"""The stand-in built a second time with one thing different: the same bytes, and a leak of that thing is found."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cpuwheels.core.errors import ReproducibilityError
from cpuwheels.pipeline.variation.axes import AXES, DEFAULT
from cpuwheels.pipeline.variation.machine import Machine
from cpuwheels.verification.verified import VERIFY, Verified
from layout import ROOT
from tiny_project import Tiny

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="most axes are Linux's")]

ELSEWHERE = {"path": {"path", "store"}, "path-length": {"path", "path-length", "store"}}
"""What is varied where one of these is asked for: tools that hold their own path cannot be used elsewhere."""

NEVER = {"toolchain"}

FROM_COPY = ROOT / "src/cpuwheels/pipeline/variation/resources/from_copy.py"


def verified(wheel: Path) -> Verified:
    return Verified.model_validate_json((wheel.parent / VERIFY).read_bytes())


def possible(axis: str) -> bool:
    """Return whether this machine should be able to vary an axis, asked in another way than the program does."""
    if axis in {"user", "hostname"}:
        return subprocess.run(["unshare", "--user", "--uts", "true"], check=False).returncode == 0
    if axis in {"aslr", "kernel"}:
        return subprocess.run(["setarch", "-R", "true"], check=False).returncode == 0
    if axis in {"cpus", "jobs"}:
        return len(Machine().cpus) > 1
    if axis == "python":
        return bool(Machine().pythons)
    return axis not in NEVER


@pytest.mark.parametrize("axis", [axis.name for axis in AXES])
def test_it_makes_no_difference(axis: str, tiny: Tiny, tiny_wheel: Path) -> None:
    done = tiny.run("verify", "x86", "--toolchain", "debian", "--vary", axis)
    assert done.returncode == 0, done.stderr
    found = verified(tiny_wheel)
    assert found.reproduced
    if possible(axis):
        assert found.varied.keys() == ELSEWHERE.get(axis, {axis})
        assert not found.not_varied
        assert done.stderr.count("kernels: upstream's extension modules") == 2
    else:
        assert found.not_varied.keys() == {axis}
        assert found.not_varied[axis] in done.stderr.replace("\n", " ")


LEAKS = {
    "path": "pwd",
    "time": "date +%Y",
    "user": "id -u",
    "cpus": "nproc",
    "file-order": "ls -U names",
    "aslr": "head -n 1 /proc/self/maps",
    "kernel": "uname -r",
}
"""Axis → a command of the source's own build whose answer tells of it; what else is varied does not reach a build
in the sandbox."""

ASK = """\
execute_process(
  COMMAND sh leak.sh
  WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}/csrc"
  OUTPUT_VARIABLE leak
  COMMAND_ERROR_IS_FATAL ANY
)
string(MAKE_C_IDENTIFIER "${leak}" leak)
add_compile_definitions(LEAK="${leak}")
"""


def leaking(tiny: Tiny, folder: Path, command: str) -> Path:
    """Return a source that has a command's answer in its kernels."""
    tree = Path(shutil.copytree(tiny.tree, folder))
    names = tree / "csrc" / "names"
    names.mkdir()
    for name in "abcdefgh":
        (names / name).touch()
    (tree / "csrc" / "leak.sh").write_text(f"{command}\n")
    cmake, kernel = tree / "CMakeLists.txt", tree / "csrc" / "cpu" / "ops.cpp"
    cmake.write_text(cmake.read_text().replace("include(cmake/", f"{ASK}include(cmake/"))
    kernel.write_text(kernel.read_text().replace('"count_words: empty text"', '"count_words: empty text" LEAK'))
    return tree


@pytest.mark.parametrize("axis", LEAKS)
def test_a_build_that_tells_of_it_is_found(axis: str, tiny: Tiny, tiny_wheel: Path, tmp_path: Path) -> None:
    if not possible(axis):
        pytest.skip(f"this machine cannot vary {axis}; the test above says so")
    assert tiny_wheel  # so the toolchain is there
    here = dataclasses.replace(tiny, dist=tmp_path / "dist")
    tree = leaking(here, tmp_path / "leaking", LEAKS[axis])
    done = here.run("verify", "x86", "--toolchain", "debian", "--source", tree, "--vary", axis)
    assert done.returncode == ReproducibilityError.exit_code, done.stderr
    (report,) = here.dist.rglob(VERIFY)
    found = Verified.model_validate_json(report.read_bytes())
    assert not found.reproduced
    differing = {one.member.rpartition("/")[2] for one in found.differences if one.what == "content"}
    assert {"_C.abi3.so", "_C_AVX2.abi3.so", "RECORD"} <= differing
    assert "spinloop.abi3.so" not in differing
    if axis not in ELSEWHERE:
        assert f"two builds that differ in {axis} alone give wheels that differ in" in done.stderr.replace("\n", " ")


def test_a_driver_that_tells_of_it_is_found(tiny: Tiny, tiny_wheel: Path, tmp_path: Path) -> None:
    """What the sandbox hides from builds is different for this program itself."""
    assert tiny_wheel
    package = Path(shutil.copytree(ROOT / "src/cpuwheels", tmp_path / "copy" / "cpuwheels"))
    module = package / "pipeline" / "provenance.py"
    text, leak = module.read_text(), 'self.as_dict() | {"leak": __import__("socket").gethostname()}'
    head, found, tail = text.partition("    def render")
    assert found
    assert "stable_json(self.as_dict())" in tail
    module.write_text(head + found + tail.replace("self.as_dict()", leak, 1))
    here = dataclasses.replace(tiny, dist=tmp_path / "dist")
    command = here.command("verify", "x86", "--toolchain", "debian", "--vary", "hostname")
    assert command[1:3] == ["-m", "cpuwheels"]
    command[1:3] = [str(FROM_COPY), str(package.parent)]
    done = subprocess.run(command, text=True, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert done.returncode == ReproducibilityError.exit_code, done.stderr
    assert "two builds that differ in hostname alone" in done.stderr.replace("\n", " ")
    assert "cpuwheels.json" in done.stderr


def test_all_at_once_makes_no_difference(tiny: Tiny, tiny_wheel: Path) -> None:
    done = tiny.run("verify", "x86", "--toolchain", "debian", "--vary", "all")
    assert done.returncode == 0, done.stderr
    found = verified(tiny_wheel)
    assert found.reproduced
    assert found.varied.keys() == {axis.name for axis in AXES if possible(axis.name)}
    assert found.not_varied.keys() == {axis.name for axis in AXES if not possible(axis.name)}


def test_what_was_verified_is_in_the_report(tiny: Tiny, tiny_wheel: Path) -> None:
    done = tiny.run("verify", "x86", "--toolchain", "debian")
    assert done.returncode == 0, done.stderr
    found = json.loads((tiny_wheel.parent / VERIFY).read_text())
    assert found["varied"].keys() == set(DEFAULT)
    page = (tiny_wheel.parent / "report.html").read_text()
    assert "the same bytes" in page
