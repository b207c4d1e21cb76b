"""Kernel speed with the real torch: an operator that was made slower is found, and its equals are not."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from extension import compile_extension
from tiny_kernels import KERNELS, wheel_of
from tiny_project import Tiny

if TYPE_CHECKING:
    from cpuwheels.environment.sealed_env import Environment
    from cpuwheels.toolchain.result import Toolchain

pytestmark = pytest.mark.slow

SLOWER = 1.5


@pytest.fixture(scope="module")
def wheels(
    environment: Environment, toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """Two wheels of the same kernels; in the first one silu_and_mul takes longer."""
    folder = tmp_path_factory.mktemp("kernels")
    slow = compile_extension(environment, toolchain, KERNELS, folder / "slow.so", f"-DSLOWER={SLOWER}")
    plain = compile_extension(environment, toolchain, KERNELS, folder / "plain.so")
    return wheel_of(slow, folder / "slow"), wheel_of(plain, folder / "plain")


def bench(tiny: Tiny, wheel: Path, against: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return tiny.run("kernel-bench", "x86", "--wheel", wheel, "--against", against, *arguments)


def test_the_slower_operator_is_found_and_no_other(tiny: Tiny, wheels: tuple[Path, Path], tmp_path: Path) -> None:
    operators = ("silu_and_mul", "gelu_quick", "cpu_attn_has_isa")
    named = [part for operator in operators for part in ("--operator", operator)]
    done = bench(tiny, *wheels, *named, "--rounds", "7", "--least", "0.9", "--out", tmp_path)
    assert done.returncode == 36, done.stderr
    assert "silu_and_mul" in done.stderr.splitlines()[-3], done.stderr
    report = json.loads((tmp_path / "speed.json").read_text())
    found = {operator["operator"]: operator for operator in report["operators"]}
    assert set(found) == set(operators)
    slow, equal = found["silu_and_mul"], found["gelu_quick"]
    assert 1 / SLOWER - 0.07 < slow["value"] < 1 / SLOWER + 0.07
    assert slow["low"] <= slow["value"] <= slow["high"] < 0.9 <= equal["high"]
    assert equal["value"] == pytest.approx(1, abs=0.08)
    assert all(len(case["seconds"]) == len(case["against"]) == 7 for case in slow["cases"])
    assert {left["reason"] for left in report["left_out"] if left["operator"] == "silu_and_mul"} <= {
        "the call is refused, as it should be"
    }


def test_what_cannot_be_compared_has_its_exit_code(tiny: Tiny, wheels: tuple[Path, Path], tmp_path: Path) -> None:
    slow, plain = wheels
    text = tmp_path / "vllm-0.1.0+cpu-cp38-abi3-manylinux_2_28_x86_64.whl"
    text.write_text("no wheel")
    other = tmp_path / "vllm-0.1.0+cpu-cp38-abi3-manylinux_2_28_s390x.whl"
    shutil.copy(plain, other)
    for arguments, code, message in [
        ((slow, text), 35, "is not a wheel\n  where: --against"),
        ((text, slow), 35, "is not a wheel\n  where: --wheel"),
        ((slow, other), 35, "not for x86_64"),
        ((slow, slow), 2, "compared with itself"),
        ((slow, plain, "--library", "_C_AVX2"), 2, "has no library _C_AVX2"),
        ((slow, plain, "--operator", "silu_and_mull"), 2, "neither wheel has silu_and_mull"),
        ((slow, plain, "--rounds", "5"), 2, "--rounds"),
    ]:
        done = bench(tiny, *arguments)
        assert (done.returncode, message in done.stderr) == (code, True), done.stderr
        assert "Traceback" not in done.stderr
