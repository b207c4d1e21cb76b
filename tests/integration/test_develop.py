"""A checkout of the stand-in installed editable, with its real kernels."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tiny_project import Tiny, commit_all

pytestmark = pytest.mark.slow

USE = """
import importlib.util, torch, vllm
torch.ops.load_library(importlib.util.find_spec("vllm._C").origin)
print(float(torch.ops._C.scale(torch.ones(2), 2.0)[0]))
vllm.main()
"""


def test_python_changes_count_at_once_and_kernel_changes_after_the_next_install(tiny: Tiny, tmp_path: Path) -> None:
    folder = tmp_path / "vllm"
    shutil.copytree(tiny.tree, folder)
    (folder / "PKG-INFO").unlink()
    (folder / ".gitignore").write_text(".venv\n__pycache__\n")
    commit_all(folder, "release", tag="v0.1.0")

    def install() -> tuple[Path, str]:
        done = tiny.run("develop", folder, "--no-requirements")
        assert done.returncode == 0, done.stderr
        return Path(done.stdout.strip()), done.stderr

    def use() -> list[str]:
        done = subprocess.run([python, "-c", USE], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    python, _ = install()
    assert python == folder / ".venv" / "bin" / "python"
    assert use() == ["2.0", "tiny"]
    package, kernel = folder / "vllm" / "__init__.py", folder / "csrc" / "cpu" / "ops.cpp"
    package.write_text(package.read_text().replace("tiny", "huge"))
    assert use() == ["2.0", "huge"]
    _, told = install()
    assert "nothing to compile" in told
    kernel.write_text(kernel.read_text().replace("static_cast<float>(factor)", "static_cast<float>(factor) * 5"))
    _, told = install()
    assert "compiling _C" in told
    assert use() == ["10.0", "huge"]
    assert not list((folder / "vllm").rglob("*.so"))
    status = subprocess.run(["git", "-C", folder, "status", "--porcelain"], capture_output=True, text=True, check=True)
    assert status.stdout.split() == ["M", "csrc/cpu/ops.cpp", "M", "vllm/__init__.py"]


def test_what_is_no_checkout(tiny: Tiny, tmp_path: Path) -> None:
    done = tiny.run("develop", tmp_path)
    assert "is not a vLLM source tree" in done.stderr
    assert done.returncode == 39
    done = tiny.run("develop", tiny.tree, "--python", tmp_path / "gone")
    assert "is not an interpreter" in done.stderr
    assert list(tmp_path.iterdir()) == []
