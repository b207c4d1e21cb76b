"""The environment that a wheel is served from: which requirements it has, and what comes with torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from contexts import build_context
from cpuwheels.config.context import BuildContext
from cpuwheels.config.host import markers
from cpuwheels.core.errors import LockedError
from cpuwheels.environment.build_env import Environment
from cpuwheels.environment.test_env import new_environment
from cpuwheels.fetch.uv import site_packages
from cpuwheels.verification.serving import environment as serving
from cpuwheels.verification.serving.environment import _install_companions, _lock
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


def choose(this: BuildContext, own: Path, environment: Environment, work: Path, *, locked: bool) -> tuple[Path, str]:
    about = markers(this.target, "3.11")
    return _lock(this, own, ["pillow>=12", "torch==2.13.0+cpu"], about, environment, work, locked=locked)


def test_the_projects_lock_is_taken_if_it_fits(this: BuildContext, made: Environment, tmp_path: Path) -> None:
    own = this.paths.root / "locks" / "serve" / "x86-0.32.0-py3.11.txt"
    own.parent.mkdir(parents=True)
    own.write_text("pillow==12.1 --hash=sha256:0\n")
    assert choose(this, own, made, tmp_path, locked=True) == (own, "locks/serve/x86-0.32.0-py3.11.txt")
    assert this.reporter.announcements == []


@pytest.mark.parametrize(
    ("text", "why"), [(None, "there is no x86-0.32.0-py3.11.txt"), ("pillow==11.0", "have pillow>=12")]
)
def test_without_one_that_fits_requirements_are_resolved_aloud_or_refused(
    this: BuildContext, made: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, why: str
) -> None:
    own = this.paths.root / "locks" / "serve" / "x86-0.32.0-py3.11.txt"
    if text:
        own.parent.mkdir(parents=True)
        own.write_text(text)
    resolved: list[Path] = []
    monkeypatch.setattr(serving, "_resolve", lambda _this, _lines, _environment, lock: resolved.append(lock))
    with pytest.raises(LockedError, match=why):
        choose(this, own, made, tmp_path, locked=True)
    assert not resolved
    lock, name = choose(this, own, made, tmp_path, locked=False)
    assert resolved == [lock]
    assert lock.parent == tmp_path  # the project's own stays as it is
    assert name.startswith("resolved on 20")
    (note,) = this.reporter.announcements
    assert why in note
