from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cpuwheels.config.matrix import Target, load_matrix
from cpuwheels.verification.serving.lesser_cpu import lesser_cpu

AVX2 = {"avx2", "f16c", "fma"}
AVX512 = AVX2 | {"avx512f", "avx512vl", "avx512bw", "avx512dq"}
BEST = AVX512 | {"avx512_bf16", "avx512_vnni", "amx_tile", "amx_bf16"}


@pytest.fixture
def target(project_root: Path) -> Target:
    return load_matrix(project_root).target("x86")


def test_the_library_that_vllm_chooses_anyway_needs_nothing(target: Target) -> None:
    assert lesser_cpu(target, "_C", BEST) == {}
    assert lesser_cpu(target, "_C_AVX512", AVX512) == {}
    assert lesser_cpu(target, "_C_AVX2", AVX2) == {}


def test_a_lesser_one_gets_a_cpu_that_lacks_what_it_does_not_need(target: Target) -> None:
    middle, least = lesser_cpu(target, "_C_AVX512", BEST), lesser_cpu(target, "_C_AVX2", BEST)
    lacks = middle["CPUWHEELS_CPU_LACKS"].split(",")
    assert "_is_avx512_bf16_supported" in lacks
    assert "_is_amx_tile_supported" in lacks
    assert "_is_avx512_supported" not in lacks
    assert "_is_avx512_supported" in least["CPUWHEELS_CPU_LACKS"].split(",")
    assert "_is_avx2_supported" not in least["CPUWHEELS_CPU_LACKS"].split(",")
    assert (middle["ONEDNN_MAX_CPU_ISA"], least["ONEDNN_MAX_CPU_ISA"]) == ("AVX512_CORE", "AVX2")


def test_torch_says_no_to_what_the_hook_is_told_and_nothing_else(target: Target, tmp_path: Path) -> None:
    (tmp_path / "torch" / "cpu").mkdir(parents=True)
    (tmp_path / "torch" / "__init__.py").write_text("import torch.cpu\n")
    names = ("_is_avx2_supported", "_is_avx512_supported", "_is_amx_tile_supported")
    (tmp_path / "torch" / "cpu" / "__init__.py").write_text("".join(f"def {name}(): return True\n" for name in names))
    ask = f"import torch; print([getattr(torch.cpu, name)() for name in {names}])"
    variables = lesser_cpu(target, "_C_AVX512", BEST)
    path = os.pathsep.join([variables["PYTHONPATH"], str(tmp_path)])
    for env, said in (
        (variables | {"PYTHONPATH": path}, "[True, True, False]"),
        ({"PYTHONPATH": path}, "[True, True, True]"),
    ):
        done = subprocess.run(
            [sys.executable, "-S", "-c", f"import sitecustomize; {ask}"],
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == said
