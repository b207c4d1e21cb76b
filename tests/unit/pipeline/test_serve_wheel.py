from __future__ import annotations

import os
from pathlib import Path

import pytest

from cpuwheels.config.matrix import Target, load_matrix
from cpuwheels.config.options import ServeOptions
from cpuwheels.core.errors import UsageError
from cpuwheels.pipeline import serve_wheel as serve_run
from cpuwheels.pipeline.serve_wheel import check_options, chosen_models, server_variables
from cpuwheels.toolchain.native_helpers import CpuFeatures
from cpuwheels.verification.emulation.cpus import require_runnable
from cpuwheels.verification.onednn_isa import OnednnLimit
from cpuwheels.wheel.kernel_wheel import KernelWheel

LIBRARIES = {"_C": "vllm/_C.so", "_C_AVX2": "vllm/_C_AVX2.so"}
WHEEL = KernelWheel(Path("vllm.whl"), "0" * 64, "0.32.0+cpu", "2.13.0", LIBRARIES)


@pytest.fixture
def target(project_root: Path) -> Target:
    return load_matrix(project_root).target("x86")


def cpu(*features: str) -> CpuFeatures:
    return CpuFeatures(architecture="x86_64", vendor="", model="", features=frozenset(features), xcr0=None, amx=None)


def test_a_library_has_to_be_in_the_wheel_and_run_on_this_cpu(target: Target) -> None:
    check_options(ServeOptions(libraries=("_C_AVX2",)), target, WHEEL)
    with pytest.raises(UsageError, match="has no library _C_AVX512"):
        check_options(ServeOptions(libraries=("_C_AVX512",)), target, WHEEL)
    needs = {each.name: each.needs for each in target.libraries}
    require_runnable("_C_AVX2", needs, cpu("avx2", "f16c").features)
    with pytest.raises(UsageError, match="cannot run _C: it lacks avx512_bf16"):
        require_runnable("_C", needs, cpu("avx2", "f16c").features)


def test_where_a_chooser_decides_no_library_can_be_asked_for(project_root: Path) -> None:
    arm = load_matrix(project_root).target("arm")
    with pytest.raises(UsageError, match="chooser of target arm decides"):
        check_options(ServeOptions(libraries=("_C_NEON",)), arm, WHEEL)


def test_a_lock_is_used_or_written(target: Target) -> None:
    with pytest.raises(UsageError, match="--locked uses a lock and --relock writes one"):
        check_options(ServeOptions(locked=True, relock=True), target, WHEEL)


def test_a_model_is_one_that_is_made_or_a_folder_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert chosen_models(["opt", "."]) == {"opt": None, tmp_path.name: tmp_path}
    with pytest.raises(UsageError, match="llama is not the folder of a model"):
        chosen_models(["llama"])
    with pytest.raises(UsageError, match=f"two models are called {tmp_path.name}"):
        chosen_models([str(tmp_path), "."])
    (tmp_path / "opt").mkdir()
    (tmp_path / "opt" / "config.json").write_text("{}")
    with pytest.raises(UsageError, match="two models are called opt"):
        chosen_models(["opt", str(tmp_path / "opt")])


def test_nothing_is_written_to_the_users_folders(tmp_path: Path) -> None:
    with server_variables(tmp_path, OnednnLimit("AVX2", "asked for", from_user=True)) as env:
        assert env["HOME"].startswith(str(tmp_path))
        assert env["ONEDNN_MAX_CPU_ISA"] == "AVX2"
        assert env["TMPDIR"] == env["VLLM_RPC_BASE_PATH"]
        assert len(env["TMPDIR"]) < 60 or len(os.environ.get("TMPDIR", "")) > 40
        (Path(env["TMPDIR"]) / "socket").touch()
    assert not Path(env["TMPDIR"]).exists()


def test_a_users_limit_wins_over_a_librarys(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = []
    monkeypatch.setattr(serve_run, "make_models", lambda _setting, names: {name: Path(name) for name in names})
    monkeypatch.setattr(serve_run, "questions_for", lambda *_: Path("questions"))
    monkeypatch.setattr(serve_run, "serve_case", lambda _setting, one, _questions: wanted.append(one))
    best = cpu(*(feature for library in target.libraries for feature in library.needs), "avx2")
    options = ServeOptions(models=("opt",), dtypes=("bfloat16",), libraries=("_C", "_C_AVX512"))
    for limit in (
        OnednnLimit("AVX2", "asked for", from_user=True),
        OnednnLimit("AVX512_CORE_FP16", "", from_user=False),
    ):
        list(serve_run._cases(None, WHEEL, {"opt": None}, options, target, best, limit))  # type: ignore[arg-type]
    assert [one.env.get("ONEDNN_MAX_CPU_ISA") for one in wanted] == ["AVX2", "AVX2", None, "AVX512_CORE"]
