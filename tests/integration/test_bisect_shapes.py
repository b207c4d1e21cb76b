"""Bisections of histories with merges, with a fault among commits that do not compile, and with crashes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tiny_project import Tiny, commit_all

pytestmark = pytest.mark.slow

WRONG = "import sys, vllm; sys.exit('wrong' in dir(vllm))"
LOADS = """
import pathlib, sys, torch
site = next(path for path in map(pathlib.Path, sys.path) if (path / "vllm" / "_C.abi3.so").exists())
torch.ops.load_library(str(site / "vllm" / "_C.abi3.so"))
"""


class Written:
    """A repository that is written commit by commit."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(tree, folder)
        (folder / "PKG-INFO").unlink()
        commit_all(folder, "release", tag="v0.1.0")
        self.kernel, self.package = folder / "csrc" / "cpu" / "ops.cpp", folder / "vllm" / "__init__.py"

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", "-C", self.folder, *arguments], check=True, capture_output=True)

    def add(self, name: str, **texts: str) -> str:
        """Commit one more file, and other texts of the kernel or the package."""
        (self.folder / "vllm" / f"{name}.py").write_text(f"name = '{name}'\n")
        for which, text in texts.items():
            getattr(self, which).write_text(text)
        return commit_all(self.folder, name)


@pytest.fixture
def written(tiny: Tiny, tiny_wheel: Path, tmp_path: Path) -> Written:
    assert tiny_wheel  # its kernels are those of most commits
    return Written(tiny.tree, tmp_path / "vllm")


def bisected(tiny: Tiny, written: Written, command: str, *more: str) -> dict:
    out = written.folder.parent / f"out{len(more)}"
    done = tiny.run(
        "bisect",
        "--repo",
        written.folder,
        "--good",
        "v0.1.0",
        "--bad",
        "main",
        "--run",
        command,
        "--no-requirements",
        "--out",
        out,
        *more,
    )
    assert done.returncode == 0, done.stderr
    return json.loads((out / "result.json").read_text())


def test_a_merge_is_one_change_unless_what_it_merged_is_searched_too(tiny: Tiny, written: Written) -> None:
    written.add("one")
    written.git("checkout", "-q", "-b", "side")
    written.add("side1")
    guilty = written.add("side2", package=f"{written.package.read_text()}wrong = True\n")
    written.add("side3")
    written.git("checkout", "-q", "main")
    written.add("two")
    env = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    written.git(*env, "merge", "-q", "--no-ff", "-m", "merge", "side")
    merge = subprocess.run(
        ["git", "-C", written.folder, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    written.add("three")
    command = f'python -c "{WRONG}"'
    result = bisected(tiny, written, command)
    assert result["first_bad"] == merge
    assert "vllm/__init__.py" in result["suspects"][0]["files"]
    assert bisected(tiny, written, command, "--all-parents")["first_bad"] == guilty


def test_a_fault_among_commits_that_do_not_compile_is_told_as_a_range(tiny: Tiny, written: Written) -> None:
    text = written.kernel.read_text()
    wrong = text.replace("static_cast<float>(factor)", "static_cast<float>(factor) * 2")
    written.add("one")
    broken = written.add("two", kernel=f"#error broken\n{text}")
    guilty = written.add("three", kernel=f"#error broken\n{wrong}")
    fixed = written.add("four", kernel=wrong)
    written.add("five")
    check = written.folder.parent / "check.py"
    check.write_text(f"{LOADS}\nsys.exit(float(torch.ops._C.scale(torch.ones(1), 2.0)) != 2)\n")
    result = bisected(tiny, written, f"python {check}")
    assert result["first_bad"] is None
    assert [suspect["commit"] for suspect in result["suspects"]] == [broken, guilty, fixed]


def test_a_kernel_library_that_crashes_while_it_is_loaded(tiny: Tiny, written: Written) -> None:
    text = written.kernel.read_text()
    written.add("one")
    crash = "#include <cstdlib>\n__attribute__((constructor)) static void crash() { std::abort(); }\n"
    guilty = written.add("two", kernel=f"{text}\n{crash}")
    written.add("three")
    check = written.folder.parent / "check.py"
    check.write_text(LOADS)
    result = bisected(tiny, written, f"python {check} || exit 1")
    assert result["first_bad"] == guilty
    assert result["suspects"][0]["files"][0] == "csrc/cpu/ops.cpp"


def test_kernels_of_a_finished_wheel_are_taken_where_they_fit(tiny: Tiny, tiny_wheel: Path, written: Written) -> None:
    text = written.kernel.read_text()
    written.add("one")
    guilty = written.add("two", kernel=text.replace("static_cast<float>(factor)", "static_cast<float>(factor) * 3"))
    written.add("three")
    check = written.folder.parent / "check.py"
    check.write_text(f"{LOADS}\nsys.exit(float(torch.ops._C.scale(torch.ones(1), 2.0)) != 2)\n")
    result = bisected(tiny, written, f"python {check}", "--kernels-from", str(tiny_wheel))
    assert result["first_bad"] == guilty
    for probe in result["probes"]:
        expected = {"precompiled kernels"} if probe["verdict"] == "good" else {"build", "stored kernels"}
        assert probe["wheel_from"] in expected
