"""A checkout's editable installation: what is built, and which environment it goes into."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import TargetNotBuiltError, UnsuitableSourceError, UsageError
from cpuwheels.pipeline import develop as module
from cpuwheels.pipeline.develop import develop
from fake_builds import PLACE, Builds
from sample_source import commit, write_tree

PYTHON = Path(sys.executable)


class Steps:
    """Notes what is done with the wheel of the build."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.builds = Builds()
        self.made: list[Path] = []
        self.installed: list[tuple[object, ...]] = []
        monkeypatch.setattr(PLACE, self.builds)
        monkeypatch.setattr(module, "read_wheel", lambda *_: SimpleNamespace(torch="2.13.0"))
        monkeypatch.setattr(module, "torch_environment", lambda _, torch: f"with torch {torch}")
        monkeypatch.setattr(module, "editable_wheel", self._editable)
        monkeypatch.setattr(module, "new_environment", lambda _, folder, __: self.made.append(folder))
        monkeypatch.setattr(module, "install_with_torch", self._install)

    @staticmethod
    def _editable(built: Path, folder: Path, wheel: Path) -> None:
        wheel.write_text(f"{built.name} of {folder}")

    def _install(self, environment: str, wheel: Path, python: Path, _logs: Path, *, requirements: bool) -> None:
        self.installed.append((environment, wheel.read_text(), python, requirements))


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("platform.system", lambda: "Linux")
    return Steps(monkeypatch)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "vllm")


Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, project_root: Path, checkout: Path, reporter: Reporter) -> Install:
    paths = Paths(project_root, tmp_path / "cache", tmp_path / "dist")

    def install(name: str = "x86", folder: Path = checkout, options: BuildOptions | None = None, **more: object):
        chosen = options or BuildOptions()
        return develop(paths, load_matrix(project_root), name, folder, chosen, reporter, **more)

    return install


@pytest.mark.usefixtures("plain_git")
@pytest.mark.parametrize("link", [True, False])
def test_an_environment_that_a_commit_brings_along_is_refused(
    install: Install, steps: Steps, checkout: Path, tmp_path: Path, *, link: bool
) -> None:
    """uv would run its interpreter."""
    program = (tmp_path if link else checkout / ".venv") / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    if link:
        (checkout / ".venv").symlink_to(tmp_path)
    commit(checkout, "hostile")
    with pytest.raises(UsageError, match=r"the checkout's commits have a \.venv in them"):
        install()
    assert steps.builds.asked == steps.installed == []
    assert install(python=PYTHON) == PYTHON


def test_the_checkout_gets_an_environment_and_kernels_that_are_not_loaded(
    install: Install, steps: Steps, checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout.parent)
    python = checkout / ".venv" / "bin" / "python"
    assert install(folder=Path("vllm"), options=BuildOptions(memory="8G", source="another")) == python
    (asked,) = steps.builds.asked
    assert asked.options == BuildOptions(memory="8G", source=str(checkout))
    assert asked.paths.dist == tmp_path / "dist" / "develop"
    assert asked.more == {"check": False}
    assert steps.made == [checkout / ".venv"]
    assert steps.installed == [("with torch 2.13.0", f"a.whl of {checkout}", python, True)]
    assert list((tmp_path / "cache" / "work").iterdir()) == []


def test_an_environment_that_is_there_is_kept(install: Install, steps: Steps, checkout: Path) -> None:
    python = checkout / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("")
    assert install() == python
    assert steps.made == []


def test_the_users_own_interpreter_is_used_and_none_is_made(install: Install, steps: Steps, checkout: Path) -> None:
    assert install(python=PYTHON, requirements=False) == PYTHON
    assert steps.made == []
    assert steps.installed == [("with torch 2.13.0", f"a.whl of {checkout}", PYTHON, False)]


def test_what_cannot_work_is_told_before_anything_is_built(install: Install, steps: Steps, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="gone is not an interpreter"):
        install(python=tmp_path / "gone")
    with pytest.raises(UnsuitableSourceError):
        install(folder=tmp_path)
    with pytest.raises(TargetNotBuiltError, match="is run on Linux aarch64"):
        install("arm")
    assert steps.builds.asked == []
