from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.config.matrix import Target, load_matrix
from cpuwheels.config.serving_options import ServeOptions
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import ServeError, UsageError
from cpuwheels.pipeline import serve_wheel as serve_run
from cpuwheels.pipeline.serve_wheel import check_libraries, check_locks, filled_in
from cpuwheels.toolchain.native_helpers import CpuFeatures
from cpuwheels.verification.emulation.cpus import require_runnable
from cpuwheels.verification.onednn_isa import OnednnLimit
from cpuwheels.verification.serving import run as serve_models
from cpuwheels.verification.serving.case import Wanted
from cpuwheels.verification.serving.models import MADE, chosen_models
from cpuwheels.verification.serving.result import Case
from cpuwheels.wheel.kernel_wheel import KernelWheel

LIBRARIES = {"_C": "vllm/_C.so", "_C_AVX2": "vllm/_C_AVX2.so"}
WHEEL = KernelWheel(Path("vllm.whl"), "0" * 64, "0.32.0+cpu", "2.13.0", LIBRARIES)


@pytest.fixture
def target(project_root: Path) -> Target:
    return load_matrix(project_root).target("x86")


def cpu(*features: str) -> CpuFeatures:
    return CpuFeatures(architecture="x86_64", vendor="", model="", features=frozenset(features), xcr0=None, amx=None)


def test_a_library_has_to_be_in_the_wheel_and_run_on_this_cpu(target: Target) -> None:
    check_libraries(ServeOptions(libraries=("_C_AVX2",)), target, WHEEL)
    with pytest.raises(UsageError, match="has no library _C_AVX512"):
        check_libraries(ServeOptions(libraries=("_C_AVX512",)), target, WHEEL)
    needs = {each.name: each.needs for each in target.libraries}
    require_runnable("_C_AVX2", needs, cpu("avx2", "f16c").features)
    with pytest.raises(UsageError, match="cannot run _C: it lacks avx512_bf16"):
        require_runnable("_C", needs, cpu("avx2", "f16c").features)


def test_where_a_chooser_decides_no_library_can_be_asked_for(project_root: Path) -> None:
    arm = load_matrix(project_root).target("arm")
    with pytest.raises(UsageError, match="chooser of target arm decides"):
        check_libraries(ServeOptions(libraries=("_C_NEON",)), arm, WHEEL)


def test_a_lock_is_used_or_written() -> None:
    with pytest.raises(UsageError, match="--locked uses a lock and --relock writes one"):
        check_locks(ServeOptions(locked=True, relock=True))


def test_a_model_is_one_that_is_made_or_a_folder_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert chosen_models(["opt", "."], MADE) == {"opt": None, tmp_path.name: tmp_path}
    with pytest.raises(UsageError, match="llama is not the folder of a model"):
        chosen_models(["llama"], MADE)
    with pytest.raises(UsageError, match=f"two models are called {tmp_path.name}"):
        chosen_models([str(tmp_path), "."], MADE)
    (tmp_path / "opt").mkdir()
    (tmp_path / "opt" / "config.json").write_text("{}")
    with pytest.raises(UsageError, match="two models are called opt"):
        chosen_models(["opt", str(tmp_path / "opt")], MADE)


@pytest.fixture
def best(target: Target) -> CpuFeatures:
    """Return a CPU that runs every library."""
    return cpu(*(feature for library in target.libraries for feature in library.needs), "avx2")


class Ran:
    """Cases that were asked for, with nothing behind them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.served: list[Wanted] = []
        self.asked: list[tuple[str, str]] = []
        monkeypatch.setattr(serve_models, "make_models", lambda _setting, names: {name: Path(name) for name in names})
        monkeypatch.setattr(serve_models, "questions_for", self.ask)
        monkeypatch.setattr(serve_models, "serve_case", self.serve)

    def ask(self, _setting: object, name: str, _folder: Path, dtype: str) -> Path:
        self.asked.append((name, dtype))
        return Path("questions")

    def serve(self, _setting: object, one: Wanted, _questions: Path) -> Case:
        self.served.append(one)
        return one.not_served("x")

    def run(
        self,
        target: Target,
        machine: CpuFeatures,
        options: ServeOptions,
        limit: OnednnLimit | None = None,
        operators: dict[str, set[str]] | None = None,
    ) -> list[Case]:
        every = {"_C": ALL, "_C_AVX512": ALL, "_C_AVX2": ALL}
        models = chosen_models(options.models, MADE)
        found = serve_run._cases(
            None,  # type: ignore[arg-type]
            WHEEL,
            models,
            options,
            target,
            machine,
            limit,
            operators or every,
        )
        return list(found)


ALL = {operator for model in MADE.values() for operator in model.operators}


def test_a_users_limit_wins_over_a_librarys(target: Target, best: CpuFeatures, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = Ran(monkeypatch)
    options = ServeOptions(models=("opt",), dtypes=("bfloat16",), modes=("eager",), libraries=("_C", "_C_AVX512"))
    for limit in (
        OnednnLimit("AVX2", "asked for", from_user=True),
        OnednnLimit("AVX512_CORE_FP16", "", from_user=False),
    ):
        ran.run(target, best, options, limit)
    assert [one.env.get("ONEDNN_MAX_CPU_ISA") for one in ran.served] == ["AVX2", "AVX2", None, "AVX512_CORE"]


def test_a_level_serves_some_or_all_and_options_win(target: Target, best: CpuFeatures) -> None:
    smoke = filled_in(ServeOptions(), target, WHEEL, best)
    assert (smoke.dtypes, smoke.modes, smoke.libraries) == (("bfloat16",), ("eager",), ())
    assert set(smoke.models) < set(MADE)
    full = filled_in(ServeOptions(level="full"), target, WHEEL, best)
    assert full.models == tuple(MADE)
    assert (full.dtypes, full.modes) == (("float32", "bfloat16"), ("eager", "compile"))
    assert full.libraries == ("_C", "_C_AVX2")
    small = filled_in(ServeOptions(level="full"), target, WHEEL, cpu("avx2", "f16c", "fma"))
    assert small.libraries == ("_C_AVX2",)
    chosen = ServeOptions(level="full", models=("opt",), dtypes=("float16",), modes=("eager",), libraries=("_C",))
    assert filled_in(chosen, target, WHEEL, best) == chosen


def test_where_a_chooser_decides_its_choice_is_served_at_each_level(project_root: Path) -> None:
    arm = load_matrix(project_root).target("arm")
    assert filled_in(ServeOptions(level="full"), arm, WHEEL, cpu()).libraries == ()


def test_every_mode_on_every_library_with_one_set_of_questions(
    target: Target, best: CpuFeatures, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = Ran(monkeypatch)
    ran.run(target, best, filled_in(ServeOptions(level="full", models=("qwen3", "awq")), target, WHEEL, best))
    assert ran.asked == [("qwen3", "float32"), ("qwen3", "bfloat16"), ("awq", "bfloat16")]
    assert {(one.library, one.mode) for one in ran.served if one.model == "qwen3"} == {
        (library, mode) for library in ("_C", "_C_AVX2") for mode in ("eager", "compile")
    }
    assert len({one.log for one in ran.served}) == len(ran.served) == 3 * 4


@pytest.mark.parametrize(("library", "machine"), [("_C_AVX2", "best"), ("", "small")])
def test_what_a_library_lacks_is_read_from_its_operators(
    target: Target, best: CpuFeatures, monkeypatch: pytest.MonkeyPatch, library: str, machine: str
) -> None:
    ran = Ran(monkeypatch)
    options = ServeOptions(models=("awq",), dtypes=("bfloat16",), modes=("eager",), libraries=(library,))
    operators = {"_C": ALL, "_C_AVX2": ALL - {"_C::cpu_gemm_wna16"}}
    chosen = best if machine == "best" else cpu("avx2", "f16c", "fma")
    (case,) = ran.run(target, chosen, options, operators=operators)
    assert (case.verdict, case.absent) == ("absent", ("_C::cpu_gemm_wna16",))
    assert not ran.served
    assert not ran.asked


def test_a_model_without_clear_answers_fails_each_of_its_cases(
    target: Target, best: CpuFeatures, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = Ran(monkeypatch)

    def unclear(*_: object) -> Path:
        raise ServeError("only 2 of 16 questions have a clear answer")

    monkeypatch.setattr(serve_models, "questions_for", unclear)
    options = ServeOptions(models=("opt",), dtypes=("bfloat16",), modes=("eager", "compile"))
    cases = ran.run(target, best, options)
    assert [(case.verdict, case.failure) for case in cases] == [
        ("failed", "only 2 of 16 questions have a clear answer")
    ] * 2


def test_without_headers_a_level_leaves_compiling_out_and_a_mode_is_refused() -> None:
    reporter = Reporter("test")
    options = ServeOptions(models=("opt",), dtypes=("bfloat16",), modes=("eager", "compile"))
    left = serve_run._without_compile(options, (), "no headers", reporter)
    assert left.modes == ("eager",)
    assert reporter.announcements == ["not served with torch.compile: no headers"]
    with pytest.raises(UsageError, match=r"torch\.compile cannot work here: no headers"):
        serve_run._without_compile(options, ("compile",), "no headers", reporter)
