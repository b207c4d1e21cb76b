"""Which requirements are installed to serve a wheel."""

from __future__ import annotations

from pathlib import Path

import pytest

from contexts import build_context
from cpuwheels.config.context import BuildContext
from cpuwheels.core.errors import LockedError
from cpuwheels.verification.serving import locks
from cpuwheels.verification.serving.locks import Lock, Needs, choose_lock, misfits, own_lock

NEEDS = Needs("0.32.0+cpu", ("pillow>=12", "torch==2.13.0+cpu"), ("sympy",), "3.11")


@pytest.fixture
def this(tmp_path: Path) -> BuildContext:
    return build_context(tmp_path, root=tmp_path / "project")


@pytest.fixture
def own(this: BuildContext) -> Path:
    """Where the project's lock would be."""
    own = own_lock(this, NEEDS.version, NEEDS.python)
    own.parent.mkdir(parents=True)
    return own


def test_the_projects_lock_is_taken_if_it_fits(this: BuildContext, own: Path, tmp_path: Path) -> None:
    own.write_text("pillow==12.1 --hash=sha256:0\n")
    found = choose_lock(this, NEEDS, tmp_path, locked=True, relock=False)
    assert found == Lock(own, "locks/serve/x86-0.32.0-py3.11.txt")
    assert this.reporter.announcements == []
    assert misfits(this, own, NEEDS.wheel, NEEDS.python) == ""


@pytest.mark.parametrize(
    ("text", "why"), [(None, "there is no x86-0.32.0-py3.11.txt"), ("pillow==11.0", "have pillow>=12")]
)
def test_without_one_that_fits_requirements_are_resolved_aloud_or_refused(
    this: BuildContext, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, why: str
) -> None:
    if text:
        own.write_text(text)
    resolved: list[Path] = []
    monkeypatch.setattr(locks, "_resolve", lambda _this, _needs, lock: resolved.append(lock))
    with pytest.raises(LockedError, match=why):
        choose_lock(this, NEEDS, tmp_path, locked=True, relock=False)
    assert not resolved
    found = choose_lock(this, NEEDS, tmp_path, locked=False, relock=False)
    assert resolved == [found.path]
    assert found.path.parent == tmp_path  # the project's own stays as it is
    assert found.name.startswith("resolved on 20")
    (note,) = this.reporter.announcements
    assert why in note


def test_a_new_lock_has_what_wheel_and_torch_require(
    this: BuildContext, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def compile_(wanted: list[str], _without: object, output: Path, **_how: object) -> None:
        asked.append(wanted)
        output.write_text("pillow==12.1\n")

    this.logs.mkdir(exist_ok=True)
    monkeypatch.setattr(locks, "compile_requirements", compile_)
    assert choose_lock(this, NEEDS, tmp_path, locked=False, relock=True).path == own
    assert asked == [["pillow>=12", "torch==2.13.0+cpu", "sympy"]]
    assert own.read_text() == "pillow==12.1\n"
