"""Wheels that need not be made again."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from cpuwheels.core import digests
from cpuwheels.core.errors import WheelError
from cpuwheels.pipeline.built_wheel import find_built, read_built, wheel_key
from kernel_request import TARGET
from wheel_notes import wheel_note

WHEEL = "vllm-0.32.0+cpu-cp38-abi3-manylinux_2_28_x86_64.whl"
NOTE = wheel_note()


@pytest.fixture
def output(tmp_path: Path) -> Path:
    (tmp_path / WHEEL).write_bytes(b"wheel")
    (tmp_path / "operators.json").write_text("{}")
    record = {
        "wheel_key": "key",
        "beside": ["operators.json"],
        "more": 1,
        "jobs": {"compiled_in_this_run": True},
        "wheel": {
            "file": WHEEL,
            "sha256": hashlib.sha256(b"wheel").hexdigest(),
            "size": 5,
            "versions": ["GLIBC_2.27"],
            "policy": "manylinux_2_28_x86_64",
            "tags": [],
        },
    }
    (tmp_path / "record.json").write_text(json.dumps(record))
    return tmp_path


def test_a_whole_wheel_is_found(output: Path) -> None:
    found = find_built(output, "key")
    assert found is not None
    assert (found.path, found.size, found.versions) == (output / WHEEL, 5, ("GLIBC_2.27",))
    assert found.compiled


def test_another_key_is_another_wheel(output: Path) -> None:
    assert find_built(output, "other") is None


def test_one_that_was_built_without_locked_is_no_locked_one(output: Path) -> None:
    assert find_built(output, "key", locked=True) is None
    record = json.loads((output / "record.json").read_text())
    for locked in (False, True):
        record["parameters"] = {"locked": locked, "more": 1}
        (output / "record.json").write_text(json.dumps(record))
        assert (find_built(output, "key", locked=True) is not None) is locked
        assert find_built(output, "key") is not None


def changed(output: Path) -> None:
    (output / WHEEL).write_bytes(b"whale")


def gone(output: Path) -> None:
    (output / WHEEL).unlink()


def alone(output: Path) -> None:
    (output / "operators.json").unlink()


def without_record(output: Path) -> None:
    (output / "record.json").unlink()


def half_a_record(output: Path) -> None:
    (output / "record.json").write_text('{"wheel_key": ')


def older_record(output: Path) -> None:
    (output / "record.json").write_text('{"wheel": {"file": "x.whl"}}')


@pytest.mark.parametrize("fault", [changed, gone, alone, without_record, half_a_record, older_record])
def test_what_is_not_whole_is_built_again(output: Path, fault) -> None:
    fault(output)
    assert find_built(output, "key") is None
    with pytest.raises(WheelError):
        read_built(output)


def test_the_key_holds_provenance_target_tools_and_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "tools.txt"
    tools.write_text("cmake==4\n")
    for code, text in (("code", "pack()\n"), ("other", "pack(well=True)\n")):
        (tmp_path / code).mkdir()
        (tmp_path / code / "pack.py").write_text(text)
    monkeypatch.setattr(digests, "__file__", str(tmp_path / "code" / "core" / "digests.py"))
    first = wheel_key(NOTE, TARGET, tools)
    assert wheel_key(wheel_note(), TARGET, tools) == first
    found = {first, wheel_key(wheel_note(kernel_key="l"), TARGET, tools)}
    found.add(wheel_key(NOTE, TARGET.model_copy(update={"floor": "manylinux_2_31"}), tools))
    tools.write_text("cmake==5\n")
    found.add(wheel_key(NOTE, TARGET, tools))
    monkeypatch.setattr(digests, "__file__", str(tmp_path / "other" / "core" / "digests.py"))
    found.add(wheel_key(NOTE, TARGET, tools))
    assert len(found) == 5
