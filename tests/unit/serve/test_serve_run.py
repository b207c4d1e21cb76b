from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.errors import UsageError
from cpuwheels.memory import MemoryLimit
from cpuwheels.model.matrix import Target, load_matrix
from cpuwheels.native import CpuFeatures
from cpuwheels.parity.wheel import KernelWheel
from cpuwheels.serve import run as serve_run
from cpuwheels.serve.run import _check_libraries, first_error, memory_share

GIB = 1 << 30
WHEEL = KernelWheel(
    Path("vllm.whl"), "0" * 64, "0.32.0+cpu", "2.13.0", {"_C": "vllm/_C.so", "_C_AVX2": "vllm/_C_AVX2.so"}
)


@pytest.fixture
def target(project_root: Path) -> Target:
    return load_matrix(project_root).target("x86")


def cpu(*features: str) -> CpuFeatures:
    return CpuFeatures(architecture="x86_64", vendor="", model="", features=frozenset(features), xcr0=None, amx=None)


@pytest.mark.parametrize(
    ("whole", "free", "share"), [(24 * GIB, 20 * GIB, 3 / 24), (8 * GIB, 2 * GIB, 1.6 / 8), (3 * GIB, 3 * GIB, 2.4 / 3)]
)
def test_the_server_gets_3_gib_or_most_of_what_is_free(
    monkeypatch: pytest.MonkeyPatch, whole: int, free: int, share: float
) -> None:
    monkeypatch.setattr(serve_run, "available_memory", lambda: MemoryLimit(whole, "physical memory", free))
    monkeypatch.setattr(serve_run, "memory_nodes", lambda: 1)
    assert memory_share() == pytest.approx(share)


def test_where_memory_has_nodes_the_share_is_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_run, "available_memory", lambda: MemoryLimit(64 * GIB, "physical memory", 60 * GIB))
    monkeypatch.setattr(serve_run, "memory_nodes", lambda: 4)
    assert memory_share() * 16 * GIB == pytest.approx(3 * GIB)


def test_a_library_has_to_be_in_the_wheel_and_run_on_this_cpu(target: Target) -> None:
    _check_libraries(["_C_AVX2"], target, WHEEL, cpu("avx2", "f16c"))
    with pytest.raises(UsageError, match="has no library _C_AVX512"):
        _check_libraries(["_C_AVX512"], target, WHEEL, cpu("avx2", "f16c"))
    with pytest.raises(UsageError, match="cannot run _C: it lacks avx512_bf16"):
        _check_libraries(["_C"], target, WHEEL, cpu("avx2", "f16c"))


def test_the_first_error_of_a_servers_log_is_told(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert first_error(log) == ""
    log.write_text(
        "(APIServer pid=1) WARNING 11-24 [a.py:1] this can cause errors like `OSError: too many`\n"
        "(Worker pid=2) ERROR 11-24 [b.py:2] RuntimeError: Boolean value of Tensor\n"
        "(APIServer pid=1) ERROR 11-24 [c.py:3] vllm.EngineDeadError: see above\n"
    )
    assert first_error(log) == ": RuntimeError: Boolean value of Tensor"
    log.write_text("Traceback\n(APIServer pid=1) ValueError: no such model\n")
    assert first_error(log) == ": ValueError: no such model"
