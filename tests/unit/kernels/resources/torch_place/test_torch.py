"""What answers for torch while CMake configures, next to a torch that says when it is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cpuwheels.kernels.confined import TORCH_PLACE

TORCH = """\
import sys
sys.stderr.write("imported")
__version__ = "2.13.0"
from torch import utils
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of packages with a torch that says so when it is imported."""
    package = tmp_path / "site" / "torch"
    (package / "utils").mkdir(parents=True)
    (package / "__init__.py").write_text(TORCH)
    (package / "utils" / "__init__.py").write_text('cmake_prefix_path = "real"\n')
    (package / "utils" / "cpp_extension.py").write_text("CUDA_HOME = None\n")
    (tmp_path / "site" / "other.py").write_text("import torch\nversion = torch.__version__\n")
    return tmp_path / "site"


def run(site: Path, *arguments: str | Path) -> tuple[str, bool]:
    """Run Python with the answers before a folder of packages; return its output, and whether torch was imported."""
    env = {**os.environ, "PYTHONPATH": f"{TORCH_PLACE}{os.pathsep}{site}", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, *arguments], env=env, check=True, capture_output=True, text=True)
    return done.stdout.strip(), done.stderr == "imported"


@pytest.mark.parametrize(
    ("program", "answer"),
    [
        ("import torch; print(torch.utils.cmake_prefix_path)", "torch/share/cmake"),
        ("import torch\nprint(torch.__file__)", "torch/__init__.py"),
        ("import os, glob\nimport torch\nprint(os.path.dirname(torch.__file__))", "torch"),
    ],
)
def test_where_torch_is_is_answered_without_it(site: Path, program: str, answer: str) -> None:
    assert run(site, "-c", program) == (str(site / answer), False)


@pytest.mark.parametrize(
    ("program", "answer"),
    [
        ("import torch; print(torch.__version__)", "2.13.0"),
        ("import torch; print(torch.__file__ and torch.__version__)", "2.13.0"),
        ("import torch as t; print(t.utils.cmake_prefix_path)", "real"),
        ("import torch; print(getattr(torch, '__version__'))", "2.13.0"),
        ("import torch.utils.cpp_extension as e; print(e.CUDA_HOME)", "None"),
        ("import torch, torch.utils.cpp_extension; print(torch.utils.cmake_prefix_path)", "real"),
        ("from torch import utils; print(utils.cmake_prefix_path)", "real"),
        ("import torch, other; print(torch.__file__ and other.version)", "2.13.0"),
        ("import other; print(other.version)", "2.13.0"),
    ],
)
def test_whoever_asks_for_more_gets_torch_itself(site: Path, program: str, answer: str) -> None:
    assert run(site, "-c", program) == (answer, True)


def test_a_script_gets_torch_itself(site: Path, tmp_path: Path) -> None:
    script = tmp_path / "ask.py"
    script.write_text("import torch; print(torch.utils.cmake_prefix_path)")
    assert run(site, script) == ("real", True)


def test_without_torch_there_is_none() -> None:
    env = {**os.environ, "PYTHONPATH": str(TORCH_PLACE), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-S", "-c", "import torch; print(torch.__file__)"]
    done = subprocess.run(command, env=env, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "No module named 'torch'" in done.stderr
