"""Images of a small wheel on Debian's torch: of this machine where there is no other torch, and of another machine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import LockedError
from cpuwheels.image import check
from cpuwheels.image.build import LAYOUT, RECORD
from cpuwheels.image.python_packages import emulated_python, unpacked_python
from cpuwheels.image.root_filesystem import base_root
from cpuwheels.pipeline.context import open_context
from cpuwheels.verification.emulation.cpus import plainest_cpu
from cpuwheels.verification.emulation.qemu import find_emulator
from image_project import ImageProject
from layout import ROOT

if TYPE_CHECKING:
    from cpuwheels.image.build import Written

pytestmark = pytest.mark.slow

TORCH = "2.14.0"


def made(target: str, base: Path) -> ImageProject:
    pins = load_matrix(ROOT).target(target).image
    assert pins is not None
    return ImageProject(base, target, pins, TORCH, offered=False)


@pytest.fixture(scope="module")
def x86(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ImageProject]:
    project = made("x86", tmp_path_factory.mktemp("x86"))
    with project.alone():
        yield project


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ImageProject]:
    project = made("arm", tmp_path_factory.mktemp("arm"))
    with project.alone():
        yield project


def labels(written: Written, target: str) -> dict[str, str]:
    found: dict[str, str] = json.loads((written.folder / RECORD).read_text())["images"][target]["labels"]
    return found


def test_without_a_wheel_of_torch_it_stands_on_debians_and_serves(x86: ImageProject, tmp_path: Path) -> None:
    written = x86.build("one", check=True)
    assert "NOTE no wheel of torch 2.14.0 for x86_64 can be reached" in x86.output.getvalue()
    found = labels(written, "x86")
    assert found["cpuwheels.base"] == "image-sid-amd64"
    assert found["cpuwheels.fallback"].endswith("from locks/image-sid-amd64.yaml in place of 2.14.0")
    assert [layer.created_by for layer in written.images["x86"].layers][:2] == ["Debian packages", "requirements"]
    root = check.unpack(x86.tools("one"), written.folder / LAYOUT, written.tag, tmp_path / "bundle")
    assert (root / "usr/local/lib/python3.14/dist-packages/demo/__pycache__/__init__.cpython-314.pyc").is_file()
    torch = root / "usr/lib/python3/dist-packages/torch"
    sources = {path.stem for path in torch.glob("*.py")}
    assert {path.name.partition(".")[0] for path in (torch / "__pycache__").iterdir()} == sources


def test_locked_refuses_it(x86: ImageProject) -> None:
    with pytest.raises(LockedError, match=r"torch 2\.14\.0 for x86_64 is not pinned by content"):
        x86.build("one", locked=True, out=x86.base / "locked")
    assert not (x86.base / "locked").exists()


def test_an_image_of_another_machine_is_composed_and_served_here(arm: ImageProject) -> None:
    written = arm.build("one", check=True)
    assert "cpuwheels.fallback" not in labels(written, "arm"), "it is the base that the matrix names first"
    said = arm.output.getvalue()
    assert "served on neoverse-n1, emulated, after" in said
    assert "with _C_NEON, libgomp.so.1.0.0, libtcmalloc_minimal.so.4" in said


def test_this_machines_python_writes_the_bytecode_that_the_emulated_one_writes(
    arm: ImageProject, tmp_path: Path
) -> None:
    matrix = arm.matrix()
    context = open_context(arm.paths("one"), matrix, matrix.target("arm"), BuildOptions(), Reporter("arm"))
    roots = {name: base_root(context, load_lock(ROOT, name))[0] for name in ("image-arm64", "image-sid-amd64")}
    emulator, cpu = find_emulator(context, "aarch64"), plainest_cpu(context.target.libraries)
    pythons = {
        "own": emulated_python(emulator, cpu, roots["image-arm64"], "3.14", ""),
        "same": unpacked_python(roots["image-sid-amd64"], "3.14", ""),
    }
    found = {}
    for name, python in pythons.items():
        shutil.copytree(roots["image-arm64"] / "usr/lib/python3.14/asyncio", tmp_path / name)
        python.compile(tmp_path / name, "asyncio", tmp_path / "log")
        found[name] = {path.name: path.read_bytes() for path in (tmp_path / name).rglob("*.pyc")}
    assert len(found["own"]) > 20
    assert found["own"] == found["same"]
