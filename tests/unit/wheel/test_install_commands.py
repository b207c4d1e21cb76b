"""The commands that install a wheel, and the documentation that shows them. An integration test runs them."""

from __future__ import annotations

import shlex
from pathlib import Path

from cpuwheels.config.matrix import load_matrix
from cpuwheels.wheel.install_commands import (
    TORCH_INDEX,
    file_command,
    newest_command,
    pip_command,
    pip_file_command,
    uv_command,
)
from documented_commands import documented

HOST = "https://wheels.example.org"
WHEEL = "dist/x86/0.33.0/vllm-0.33.0+cpu-cp38-abi3-manylinux_2_27_x86_64.whl"


def test_a_version_is_named_and_pytorchs_index() -> None:
    view = f"{HOST}/0.32.0/cpu"
    assert uv_command(view, "0.32.0+cpu") == (
        "uv pip install vllm==0.32.0+cpu --index https://wheels.example.org/0.32.0/cpu --torch-backend cpu"
    )
    assert pip_command(view, "0.32.0+cpu") == (
        "pip install vllm==0.32.0+cpu --extra-index-url https://wheels.example.org/0.32.0/cpu "
        "--extra-index-url https://download.pytorch.org/whl/cpu"
    )


def test_a_path_is_one_word() -> None:
    assert shlex.split(file_command("a b/c+d.whl")) == ["uv", "pip", "install", "a b/c+d.whl", "--torch-backend", "cpu"]


def test_pip_is_told_pytorchs_index_if_torch_has_a_label() -> None:
    assert shlex.split(pip_file_command("a b/c.whl")) == [
        "pip",
        "install",
        "a b/c.whl",
        "--extra-index-url",
        TORCH_INDEX,
    ]
    assert pip_file_command("c.whl", labelled=False) == "pip install c.whl"


def test_the_index_of_torch_is_the_matrixs(project_root: Path) -> None:
    assert {pin.index for pin in load_matrix(project_root).torch.values()} == {TORCH_INDEX}


def test_the_documentation_shows_nothing_else(project_root: Path) -> None:
    release = (f"{HOST}/0.32.0/cpu", "0.32.0+cpu")
    known = {uv_command(*release), pip_command(*release), newest_command(f"{HOST}/nightly/cpu"), file_command(WHEEL)}
    known.add(pip_file_command(WHEEL))
    assert set(documented(project_root)) == known
