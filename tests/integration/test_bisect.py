"""Bisections of a repository with faults planted in the stand-in's kernels and Python files."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tiny_project import Tiny, commit_all

pytestmark = pytest.mark.slow

COMMITS = 12
KERNEL_COMMENT, BROKEN, FIXED, PYTHON_FAULT, KERNEL_FAULT = 2, 4, 6, 8, 10

CHECK_KERNEL = """
import pathlib, sys, torch
site = next(path for path in map(pathlib.Path, sys.path) if (path / "vllm" / "_C.abi3.so").exists())
torch.ops.load_library(str(site / "vllm" / "_C.abi3.so"))
x = torch.randn(7, 33)
sys.exit(not torch.equal(torch.ops._C.scale(x, 2.0), x * 2))
"""
CHECK_PYTHON = """
import sys, vllm
vllm.main()
sys.exit("wrong" in dir(vllm))
"""
MEET = """
import atexit, pathlib, sys, time
steps = pathlib.Path(__file__).with_name("steps")
def note(step):
    with steps.open("a") as stream:
        stream.write(step)
note("+")
atexit.register(note, "-")
end = time.monotonic() + 120
while steps.read_text().count("+") < 2:
    if time.monotonic() > end:
        sys.exit("nothing is tried at the same time")
    time.sleep(0.05)
"""
"""Notes when a command begins and ends, and has the first one wait for the second."""


@dataclasses.dataclass(frozen=True)
class Faulty:
    """A repository with planted faults.

    Attributes:
        folder: The clone.
        commits: Hashes; the first is the release v0.1.0.
        checks: Folder with the commands' scripts.
    """

    folder: Path
    commits: list[str]
    checks: Path

    def run(self, script: str) -> str:
        """Return the command that a script is run by."""
        return f"python {shlex.quote(str(self.checks / script))}"


@pytest.fixture(scope="session")
def faulty(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Faulty:
    base = tmp_path_factory.mktemp("faulty")
    folder = base / "vllm"
    shutil.copytree(tiny.tree, folder)
    (folder / "PKG-INFO").unlink()
    commits = [commit_all(folder, "release", tag="v0.1.0")]
    kernel, package = folder / "csrc" / "cpu" / "ops.cpp", folder / "vllm" / "__init__.py"
    for number in range(1, COMMITS + 1):
        (folder / "vllm" / f"part{number}.py").write_text(f"number = {number}\n")
        text = kernel.read_text()
        if number == KERNEL_COMMENT:
            kernel.write_text(f"// a comment\n{text}")
        elif number == BROKEN:
            kernel.write_text(f"#error broken\n{text}")
        elif number == FIXED:
            kernel.write_text(text.removeprefix("#error broken\n"))
        elif number == PYTHON_FAULT:
            package.write_text(f"{package.read_text()}wrong = True\n")
        elif number == KERNEL_FAULT:
            kernel.write_text(text.replace("static_cast<float>(factor)", "static_cast<float>(factor) * 1.25f"))
        commits.append(commit_all(folder, f"change {number}"))
    (base / "kernel.py").write_text(CHECK_KERNEL)
    (base / "python.py").write_text(CHECK_PYTHON)
    return Faulty(folder, commits, base)


def command(faulty: Faulty, script: str, out: Path, *more: str) -> list[str]:
    return [
        "bisect",
        "--repo",
        str(faulty.folder),
        "--good",
        "0.1.0",
        "--bad",
        "main",
        "--run",
        faulty.run(script),
        "--no-requirements",
        "--out",
        str(out),
        *more,
    ]


def bisected(tiny: Tiny, faulty: Faulty, script: str, out: Path, *more: str) -> dict:
    done = tiny.run(*command(faulty, script, out, *more))
    assert done.returncode == 0, done.stderr
    assert not (out / "unpacked").exists()
    return json.loads((out / "result.json").read_text())


@pytest.fixture(scope="session")
def kernel_result(tiny: Tiny, faulty: Faulty, tmp_path_factory: pytest.TempPathFactory) -> dict:
    return bisected(tiny, faulty, "kernel.py", tmp_path_factory.mktemp("kernel"))


def test_a_fault_in_a_kernel_is_found_past_commits_that_do_not_build(faulty: Faulty, kernel_result: dict) -> None:
    assert kernel_result["first_bad"] == faulty.commits[KERNEL_FAULT]
    assert kernel_result["suspects"][0]["files"][0] == "csrc/cpu/ops.cpp"
    for probe in kernel_result["probes"]:
        number = faulty.commits.index(probe["commit"])
        broken = BROKEN <= number < FIXED
        assert probe["verdict"] == ("skip" if broken else "bad" if number >= KERNEL_FAULT else "good")
        assert (probe["wheel_from"] == "none") == broken


def test_commits_with_the_same_kernels_are_compiled_once(faulty: Faulty, kernel_result: dict) -> None:
    built = [
        faulty.commits.index(probe["commit"]) for probe in kernel_result["probes"] if probe["wheel_from"] == "build"
    ]
    same = [
        [0, 1],
        [*range(KERNEL_COMMENT, BROKEN), *range(FIXED, KERNEL_FAULT)],
        list(range(KERNEL_FAULT, COMMITS + 1)),
    ]
    assert built
    for kernels in same:
        assert len([number for number in built if number in kernels]) <= 1


def test_a_fault_in_python_is_found_without_a_compiler(
    tiny: Tiny, faulty: Faulty, kernel_result: dict, tmp_path: Path
) -> None:
    assert kernel_result
    result = bisected(tiny, faulty, "python.py", tmp_path / "out")
    assert result["first_bad"] == faulty.commits[PYTHON_FAULT]
    assert {probe["wheel_from"] for probe in result["probes"]} <= {"stored kernels", "none"}


def test_side_by_side(tiny: Tiny, faulty: Faulty, kernel_result: dict, tmp_path: Path) -> None:
    """The first two that are judged, which are the ends, wait for each other: alone, neither would be done."""
    assert kernel_result
    (tmp_path / "meet").mkdir()
    script = tmp_path / "meet" / "meet.py"
    script.write_text(MEET + CHECK_PYTHON)
    more = ("--commits-at-once", "3", "--writable", str(tmp_path / "meet"))
    result = bisected(tiny, faulty, str(script), tmp_path / "out", *more)
    assert result["first_bad"] == faulty.commits[PYTHON_FAULT]
    steps = (tmp_path / "meet" / "steps").read_text()
    there = [steps[:end].count("+") - steps[:end].count("-") for end in range(1, len(steps) + 1)]
    assert steps.count("+") == steps.count("-") > 3
    assert 2 <= max(there) <= 3


def test_after_a_kill_the_same_command_goes_on(tiny: Tiny, faulty: Faulty, kernel_result: dict, tmp_path: Path) -> None:
    assert kernel_result
    out, state = tmp_path / "out", tmp_path / "out" / "state.json"
    running = subprocess.Popen(tiny.command(*command(faulty, "python.py", out)), stderr=subprocess.DEVNULL)
    for _ in range(3000):
        if state.exists() and len(json.loads(state.read_text())["probes"]) >= 3:
            break
        time.sleep(0.1)
        assert running.poll() is None, "it ended before it could be killed"
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    before = json.loads(state.read_text())["probes"]
    result = bisected(tiny, faulty, "python.py", out)
    assert result["first_bad"] == faulty.commits[PYTHON_FAULT]
    assert [probe["commit"] for probe in result["probes"]][: len(before)] == [probe["commit"] for probe in before]
    assert len({probe["commit"] for probe in result["probes"]}) == len(result["probes"])


def test_the_clone_stays_as_it_was(faulty: Faulty, kernel_result: dict) -> None:
    assert kernel_result

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", faulty.folder, *arguments], check=True, capture_output=True, text=True
        ).stdout.strip()

    assert git("rev-parse", "HEAD") == faulty.commits[-1]
    assert git("status", "--porcelain") == ""
    assert git("worktree", "list").count("\n") == 0


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        (["--good", "main", "--bad", "0.1.0"], "comes after the bad one"),
        (["--good", "0.1.0", "--bad", "0.1.0"], "are the same commit"),
        (["--good", "0.1.0", "--bad", "nothing"], "there is no commit 'nothing'"),
        (["--good", "0.1.0", "--bad", "main", "--parity", "scale"], "2 ways to test a commit"),
        (["--good", "0.1.0", "--bad", "main", "--run", "/no/such/program"], "is not there or cannot be run"),
        (["--good", "0.1.0", "--bad", "main", "--run", "if true"], "the shell cannot read the command"),
        (["--good", "0.1.0", "--bad", "main", "--log", "/no/such/log"], "the log cannot be read"),
    ],
)
def test_bad_input_is_one_message(tiny: Tiny, faulty: Faulty, tmp_path: Path, ends: list[str], words: str) -> None:
    given = ends if "--run" in ends else [*ends, "--run", f"{sys.executable} -c 0"]
    out = tmp_path / "out"
    done = tiny.run("bisect", "--repo", faulty.folder, "--out", out, *given)
    assert done.returncode not in {0, 1}
    assert words in done.stderr
    assert [line.startswith("error: ") for line in done.stderr.splitlines()].count(True) == 1
    assert "Traceback" not in done.stderr
    assert not out.exists()
