"""What a wheel's metadata says of itself and of torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.core.errors import UnusableWheelError
from cpuwheels.wheel.wheel_metadata import read_metadata, required_torch
from small_wheels import write_wheel

REQUIRES = (
    "numpy",
    'torch==2.13.0+cpu; platform_machine == "x86_64" or platform_machine == "aarch64"',
    'torch==2.13.0; platform_system == "Darwin"',
    'torch==9; extra == "x"',
)


@pytest.mark.parametrize(
    ("platform", "torch"),
    [
        ("manylinux_2_27_x86_64", "==2.13.0+cpu"),
        ("manylinux_2_17_aarch64.manylinux2014_aarch64", "==2.13.0+cpu"),
        ("macosx_14_0_arm64", "==2.13.0"),
        ("manylinux_2_34_s390x", ""),
    ],
)
def test_the_torch_of_the_machines_that_it_is_for(platform: str, torch: str) -> None:
    assert required_torch(REQUIRES, f"vllm-1-cp38-abi3-{platform}.whl") == torch


def test_its_headers(tmp_path: Path) -> None:
    found = read_metadata(write_wheel(tmp_path, "vllm", "1", None, "numpy", "torch"))
    assert found.get_all("Requires-Dist") == ["numpy", "torch"]


def test_what_is_no_wheel_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "vllm-1-py3-none-any.whl"
    with pytest.raises(UnusableWheelError, match="is not there"):
        read_metadata(path)
    path.write_text("no archive")
    with pytest.raises(UnusableWheelError, match="is not a wheel"):
        read_metadata(path)
