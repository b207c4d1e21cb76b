"""What packaging ends with: a wheel without a fault, or none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import wheel_writer as ww
from cpuwheels.audit.policy import Bundled
from cpuwheels.audit.validate import Expectations
from cpuwheels.config.platform_policy import load_policy
from cpuwheels.core.errors import AuditError
from cpuwheels.pipeline.package_wheel import PackagedWheel, require_valid
from cpuwheels.wheel.core_metadata import read_project

if TYPE_CHECKING:
    from pathlib import Path


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
    built = PackagedWheel(
        *(tmp_path / "x.whl", "0" * 64, 1, ("t",), "p", ("GLIBC_2.17",), (Bundled("s", "p"),), moved),
        untried={"_C": ("AMX-FP8",)},
    )
    record = json.loads(json.dumps(built.as_record()))
    assert record["file"] == "x.whl"
    assert "path" not in record
    assert record["untried"] == {"_C": ["AMX-FP8"]}
    assert record["bundled"] == [{"soname": "s", "path": "p"}]
