"""The environment that a wheel is served from: which requirements it has, and what comes with torch."""

from __future__ import annotations

from pathlib import Path

import pytest

import fake_machine
from contexts import build_context
from cpuwheels.config.context import BuildContext
from cpuwheels.core.errors import BuildEnvironmentError
from cpuwheels.environment.debian_root import DebianRoot
from cpuwheels.environment.sealed_env import Environment
from cpuwheels.environment.test_env import new_environment
from cpuwheels.fetch.uv import site_packages
from cpuwheels.verification.serving import environment as serving
from cpuwheels.verification.serving.environment import _install_companions
from cpuwheels.verification.serving.requirements import Unmet
from cpuwheels.wheel.kernel_wheel import KernelWheel
from kernel_request import environment
from small_wheels import write_wheel


@pytest.mark.parametrize(("torch", "there"), [("2.13.0", True), ("2.12.0", False)])
def test_torchs_companions_come_from_where_torch_comes_from_if_they_fit(
    made: Environment, links: Path, logs: Path, tmp_path: Path, torch: str, there: bool
) -> None:
    write_wheel(links, "torchvision", "0.28.0", {"torchvision/__init__.py": ""}, f"torch=={torch}")
    write_wheel(links, "torchvision", "0.29.0", {"torchvision/__init__.py": ""}, "torch==2.14.0")
    python = new_environment(made, tmp_path / "venv", logs)
    _install_companions(made, python, logs / "log")
    found = {path.name for path in site_packages(tmp_path / "venv").glob("torch*") if path.is_dir()}
    assert ("torchvision" in found) is there
    assert "torch" not in found  # it is installed by itself


@pytest.fixture
def this(tmp_path: Path) -> BuildContext:
    return build_context(tmp_path, root=tmp_path / "project")


def test_with_debians_torch_the_requirements_are_those_of_debians_python(
    this: BuildContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_machine.fill_root(tmp_path / "root")
    root = DebianRoot(tmp_path / "root", tmp_path / "root/usr/bin/python3.99", "2.14.1+debian")
    build = environment(torch_version="2.14.1", torch_alternate=True, debian=root)
    wheel = KernelWheel(
        Path("vllm.whl"), "0" * 64, "0.33.0+cpu", "2.14.0", {}, requires=("torch==2.14.0+cpu", "pillow>=12")
    )
    own = this.paths.root / "locks" / "serve" / "x86-0.33.0-py3.99.txt"
    own.parent.mkdir(parents=True)
    own.write_text("pillow==12.1 --hash=sha256:0\n")
    this.logs.mkdir(exist_ok=True)
    missing = [Unmet("torch", "torch==2.14.0+cpu", "vllm"), Unmet("torchvision", "torchvision", "vllm")]
    asked: list[str] = []
    monkeypatch.setattr(serving, "separate_environment", lambda *_, **__: tmp_path / "python")
    monkeypatch.setattr(serving, "install_wheel", lambda *_: tmp_path / "site")
    monkeypatch.setattr(serving, "unmet", lambda _, about: asked.append(about["python_version"]) or missing)
    found = serving.serving_environment(this, build, wheel, tmp_path, locked=False, relock=False)
    assert (found.version, found.torch, found.lock) == ("3.99", "2.14.1+debian", f"locks/serve/{own.name}")
    assert (asked, found.lacks) == (["3.99"], ("torchvision",))
    assert [note for note in this.reporter.announcements if "torch==" in note] == []


def test_an_emulated_machine_gets_the_lock_of_its_roots_python(
    this: BuildContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = fake_machine.machine(tmp_path)
    machine.bytecode.mkdir()
    own = this.paths.root / "locks" / "serve" / "x86-1.0-py3.99.txt"
    own.parent.mkdir(parents=True)
    own.write_text("pillow==12.1 --hash=sha256:0\n")
    this.logs.mkdir(exist_ok=True)
    wheel = KernelWheel(Path("vllm.whl"), "0" * 64, "1.0", "2.5.1", {}, requires=("torch==2.5.1", "pillow>=12"))
    installed: list[tuple[object, ...]] = []
    monkeypatch.setattr(
        serving, "install_wheel", lambda *given, **options: installed.append((*given, options)) or tmp_path / "site"
    )
    monkeypatch.setattr(serving, "unmet", lambda *_: [Unmet("torch", "torch==2.5.1", "vllm")])
    found, cpus = serving.emulated_environment(this, machine, wheel, tmp_path / "work", locked=True, relock=False)
    assert (found.version, found.torch, found.lock) == ("3.99", "2.5.1+debian", f"locks/serve/{own.name}")
    assert [cpu.name for cpu in cpus] == ["max,fast=on", "old"]
    assert [found.python] == cpus[1].python  # the plainest is the fastest to emulate
    options = {"options": ("--no-deps", "--only-binary", ":all:")}
    assert installed == [(wheel.path, found.python, own, this.logs, options)]
    monkeypatch.setattr(serving, "unmet", lambda *_: [Unmet("numba", "numba==0.65.0", "vllm")])
    with pytest.raises(BuildEnvironmentError, match=r"the environment lacks numba==0\.65\.0 \(required by vllm\)"):
        serving.emulated_environment(this, machine, wheel, tmp_path / "again", locked=True, relock=False)
