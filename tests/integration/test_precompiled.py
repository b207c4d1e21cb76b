"""Wheels of the stand-in with the kernels of another wheel, on a machine without a compiler."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import zipfile
from pathlib import Path

import pytest

from tiny_project import Tiny

pytestmark = pytest.mark.slow

NEEDED = ("downloads", "environments", "git", "onednn")
"""Stores without anything compiled; the tests' own are lent, since an environment takes a minute to make."""


@pytest.fixture
def bare(tiny: Tiny, tiny_wheel: Path, tmp_path: Path) -> Tiny:
    """The project on another machine: its stores hold neither kernels nor a compiler."""
    assert tiny_wheel
    cache = tmp_path / "cache"
    cache.mkdir()
    for kind in NEEDED:
        (cache / kind).symlink_to(tiny.cache / kind)
    return dataclasses.replace(tiny, cache=cache, dist=tmp_path / "dist")


@pytest.fixture
def changed(tiny: Tiny, tmp_path: Path) -> Path:
    """The sources with another Python file."""
    tree = tmp_path / "changed"
    shutil.copytree(tiny.tree, tree)
    package = tree / "vllm" / "__init__.py"
    package.write_text(package.read_text() + "more = True\n")
    return tree


NO_COMPILER = {"PATH": "/nonexistent", "CC": "/nonexistent/cc", "CXX": "/nonexistent/c++"}


def test_the_wheel_has_the_same_bytes_as_one_that_was_compiled(
    tiny: Tiny, bare: Tiny, tiny_wheel: Path, changed: Path, tmp_path: Path
) -> None:
    compiled = dataclasses.replace(tiny, dist=tmp_path / "compiled").build("--source", changed)
    done = bare.run(
        "build",
        "x86",
        "--source",
        changed,
        "--kernels-from",
        tiny_wheel,
        env=NO_COMPILER | {"PATH": shutil.which("git").rpartition("/")[0]},
    )
    assert done.returncode == 0, done.stderr
    wheel = Path(done.stdout.strip())
    assert wheel.name == compiled.name
    assert wheel.read_bytes() == compiled.read_bytes()
    assert wheel.read_bytes() != tiny_wheel.read_bytes()
    assert "toolchain" not in done.stderr
    assert not (bare.cache / "toolchains").exists()
    assert not (bare.cache / "kernels").exists()


def test_the_record_names_the_other_wheel_and_the_libraries_were_loaded(
    bare: Tiny, tiny_wheel: Path, changed: Path
) -> None:
    wheel = bare.build("--source", changed, "--kernels-from", tiny_wheel.parent)
    record = json.loads((wheel.parent / "record.json").read_text())
    assert record["precompiled"] == {
        "from": f"…/{tiny_wheel.name}",
        "wheel": tiny_wheel.name,
        "sha256": hashlib.sha256(tiny_wheel.read_bytes()).hexdigest(),
    }
    assert record["install_check"] == "passed"
    assert {"_C", "_C_AVX2"} <= set(record["tried"][0]["libraries"])
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert any(name.startswith("vllm.libs/libcpuwheels_dnnl-") for name in names)
    again = bare.run("build", "x86", "--source", changed, "--kernels-from", wheel)
    assert "nothing to do" in again.stderr


def test_another_kernel_is_refused_by_name(bare: Tiny, tiny_wheel: Path, tmp_path: Path) -> None:
    tree = bare.changed_tree(tmp_path / "other")
    done = bare.run("build", "x86", "--source", tree, "--kernels-from", tiny_wheel)
    assert done.returncode == 40
    assert "1 difference" in done.stderr
    assert "csrc/cpu/ops.cpp has other content" in done.stderr
    assert not list(bare.dist.glob("x86/*"))


def test_a_checkout_is_installed_with_them(bare: Tiny, tiny_wheel: Path, changed: Path) -> None:
    done = bare.run("develop", changed, "--no-requirements", "--kernels-from", tiny_wheel)
    assert done.returncode == 0, done.stderr
    assert "nothing to compile" in done.stderr
    assert not (bare.cache / "toolchains").exists()
