"""A wheel with a chooser, made by the whole pipeline: upstream's `_C` under another name, ours in its place."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
import yaml

from cpuwheels.config.matrix import load_matrix
from cpuwheels.wheel.kernel_wheel import read_wheel
from tiny_project import Tiny

pytestmark = pytest.mark.slow

USE = "import torch, vllm._C as c; print(c.__isa__, torch.ops._C.count_words('one two'))"


@pytest.fixture(scope="module")
def chosen(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """The tiny project with a chooser among its `_C`, called `_C_BEST` now."""
    base = tmp_path_factory.mktemp("chosen")
    shutil.copytree(tiny.root, base / "project")
    matrix = base / "project" / "matrix.yaml"
    data = yaml.safe_load(matrix.read_text())
    target = next(target for target in data["targets"] if target["id"] == "x86")
    target |= {"chooser": "_C", "baseline": "x86-64"}
    best = next(library for library in target["libraries"] if library["name"] == "_C")
    best |= {"name": "_C_BEST", "module": "_C"}
    matrix.write_text(yaml.safe_dump(data, sort_keys=False))
    return dataclasses.replace(tiny, root=base / "project", dist=base / "dist")


def test_a_wheel_with_a_chooser(chosen: Tiny, tiny_python: Path, tmp_path: Path) -> None:
    wheel = chosen.build()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    modules = {path.name for path in (tmp_path / "vllm").glob("*.so")}
    assert modules == {"_C.abi3.so", "_C_BEST.abi3.so", "_C_AVX2.abi3.so", "spinloop.abi3.so"}
    done = subprocess.run(
        [tiny_python, "-c", USE],
        env={"PYTHONPATH": str(tmp_path), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "_C_BEST 2\n"), done.stderr
    assert json.loads((wheel.parent / "record.json").read_text())["chooser_key"]
    manifest = json.loads((wheel.parent / "operators.json").read_text())
    assert [library["name"] for library in manifest["libraries"]] == ["_C_BEST", "_C_AVX2"]
    (module,) = (module for module in manifest["modules"] if module["name"] == "_C")
    assert module["operators"] == manifest["libraries"][0]["operators"]
    target = load_matrix(chosen.root).target("x86")
    assert {*read_wheel(wheel, target, {"platform_machine": "x86_64"}).libraries} == {"_C_BEST", "_C_AVX2"}
