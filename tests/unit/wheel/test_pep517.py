from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

import wheel_writer as ww
from cpuwheels.audit.policy import Audited, Bundled
from cpuwheels.audit.validate import Expectations
from cpuwheels.config.platform_policy import load_policy
from cpuwheels.core.errors import AuditError, WheelError
from cpuwheels.pipeline.package_wheel import BuiltWheel, render_note, require_valid
from cpuwheels.wheel.core_metadata import read_project
from cpuwheels.wheel.overlay import Overlay
from cpuwheels.wheel.pep517 import build_overlay, check_complete

PROJECT = read_project(ww.METADATA.encode())
FILES = frozenset({"demo/__init__.py", "demo/_C.abi3.so"})


def fake_python(folder: Path, script: str) -> Path:
    python = folder / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    return python


def test_the_hook_gets_the_epoch_and_runs_in_the_overlay(tmp_path: Path) -> None:
    python = fake_python(tmp_path, 'echo "$SOURCE_DATE_EPOCH $PWD" > "$3/demo-1.0.whl"')
    folder = tmp_path / "overlay"
    (folder / "build").mkdir(parents=True)
    wheel = build_overlay(Overlay(folder, FILES), python=python, epoch=17, out=tmp_path / "raw", log=tmp_path / "log")
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


def test_the_note_says_what_the_wheel_was_made_from() -> None:
    project = read_project(ww.METADATA.encode() + b"Requires-Dist: a @ https://e.org/a-1.tar.gz\n")
    audited = Audited(
        Path("x.whl"), ("p",), "p", (Bundled("libnuma.so.1", "demo.libs/libnuma-1.so.1"),), ("GLIBC_2.17",)
    )
    assert json.loads(render_note({"kernel_key": "k", "alternates": ["onednn"]}, audited, project)) == {
        "kernel_key": "k",
        "alternates": ["onednn"],
        "bundled_libraries": {"demo.libs/libnuma-1.so.1": "libnuma.so.1"},
        "moved_requirements": [{"declared": "a @ https://e.org/a-1.tar.gz", "now": "a==1", "extra": "a"}],
        "policy": "p",
        "symbol_versions": ["GLIBC_2.17"],
    }


def test_a_wheel_with_faults_is_taken_away(tmp_path: Path) -> None:
    wheel = ww.write_good(tmp_path)
    policy = load_policy("manylinux_2_28", "x86_64")
    require_valid(wheel, Expectations(policy, (), (), ()))
    with pytest.raises(AuditError, match="2 things are wrong") as caught:
        require_valid(wheel, Expectations(policy, (), ("demo/_D.so", "demo/_E.so"), ()))
    assert caught.value.output == "demo/_D.so is missing\ndemo/_E.so is missing"
    assert not wheel.exists()


def test_the_record_holds_plain_values(tmp_path: Path) -> None:
    moved = read_project(ww.METADATA.encode() + b"Requires-Dist: a @ https://e.org/a-1.tar.gz\n").moved
    built = BuiltWheel(tmp_path / "x.whl", "0" * 64, 1, ("t",), "p", ("GLIBC_2.17",), (Bundled("s", "p"),), moved)
    record = json.loads(json.dumps(built.as_record()))
    assert record["file"] == "x.whl"
    assert "path" not in record
    assert record["bundled"] == [{"soname": "s", "path": "p"}]
