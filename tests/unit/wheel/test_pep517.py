from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import wheel_writer as ww
from cpuwheels.core.errors import WheelError
from cpuwheels.wheel.core_metadata import read_project
from cpuwheels.wheel.overlay import Overlay
from cpuwheels.wheel.pep517 import build_overlay, check_complete
from unconfined import UNCONFINED

PROJECT = read_project(ww.METADATA.encode())
FILES = frozenset({"demo/__init__.py", "demo/_C.abi3.so"})


def fake_python(folder: Path, script: str) -> Path:
    python = folder / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    return python


def test_the_hook_gets_the_epoch_and_runs_in_the_overlay(tmp_path: Path) -> None:
    python = fake_python(tmp_path, 'echo "$SOURCE_DATE_EPOCH $PWD" > "$4/demo-1.0.whl"')
    folder = tmp_path / "overlay"
    (folder / "build").mkdir(parents=True)
    wheel = build_overlay(
        Overlay(folder, FILES), python=python, epoch=17, out=tmp_path / "raw", log=tmp_path / "log", sandbox=UNCONFINED
    )
    assert wheel.read_text() == f"17 {folder}\n"
    assert not (folder / "build").exists()


@pytest.mark.parametrize(
    ("script", "message"), [("echo cmake is missing; exit 1", "cannot be built"), (":", "left 0 wheels")]
)
def test_a_failing_hook_is_told(tmp_path: Path, script: str, message: str) -> None:
    (tmp_path / "overlay").mkdir()
    with pytest.raises(WheelError, match=message) as caught:
        build_overlay(
            Overlay(tmp_path / "overlay", FILES),
            python=fake_python(tmp_path, script),
            epoch=17,
            out=tmp_path / "raw",
            log=tmp_path / "log",
            sandbox=UNCONFINED,
        )
    assert caught.value.log == tmp_path / "log"


def test_a_complete_wheel_passes(tmp_path: Path) -> None:
    check_complete(ww.write_good(tmp_path), FILES, PROJECT)


@pytest.mark.parametrize(
    ("files", "changes", "fault"),
    [
        (FILES | {"demo/data.json"}, {}, "demo/data.json is missing"),
        (FILES - {"demo/__init__.py"}, {}, "demo/__init__.py should not be there"),
        (FILES, {"summary": "text"}, "summary: declared 'text', written ''"),
        (FILES, {"license_files": ("LICENSE",)}, "licence file LICENSE is missing"),
    ],
)
def test_a_wheel_that_lost_something_is_refused(
    tmp_path: Path, files: frozenset[str], changes: dict[str, object], fault: str
) -> None:
    project = dataclasses.replace(PROJECT, **changes)  # type: ignore[arg-type]
    with pytest.raises(WheelError) as caught:
        check_complete(ww.write_good(tmp_path), files, project)
    assert fault in caught.value.output
