"""The lock of a wheel that is there: written in a run that is not locked, for a wheel of the target alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.config.context import BuildContext
from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.paths import Paths
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import UnusableWheelError
from cpuwheels.pipeline import lock_wheel as module
from cpuwheels.pipeline.lock_wheel import lock_wheel
from small_wheels import write_wheel


def write(folder: Path, machine: str) -> Path:
    tag = f"cp38-abi3-manylinux_2_28_{machine}"
    return write_wheel(folder, "vllm", "0.32.0+cpu", {"vllm/_C.abi3.so": ""}, "torch==2.13.0+cpu", tag=tag)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[BuildContext]:
    found: list[BuildContext] = []

    def written(context: BuildContext, wheel: Path) -> Path:
        found.append(context)
        return wheel.with_name("pylock.toml")

    monkeypatch.setattr(module, "write_pylock", written)
    return found


def test_what_it_requires_is_resolved_in_a_run_of_its_own(
    tmp_path: Path, project_root: Path, reporter: Reporter, runs: list[BuildContext]
) -> None:
    wheel, paths = write(tmp_path, "x86_64"), Paths(project_root, tmp_path / "cache", tmp_path / "dist")
    assert lock_wheel(paths, load_matrix(project_root), "x86", wheel, reporter) == tmp_path / "pylock.toml"
    (context,) = runs
    assert (context.target.id, context.options.locked) == ("x86", False)
    assert context.logs.is_relative_to(tmp_path / "dist" / "logs")


def test_a_wheel_of_another_target_is_refused(
    tmp_path: Path, project_root: Path, reporter: Reporter, runs: list[BuildContext]
) -> None:
    wheel, paths = write(tmp_path, "aarch64"), Paths(project_root, tmp_path / "cache", tmp_path / "dist")
    with pytest.raises(UnusableWheelError, match="not for x86_64"):
        lock_wheel(paths, load_matrix(project_root), "x86", wheel, reporter)
    assert runs == []
