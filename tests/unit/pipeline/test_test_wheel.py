"""Tests of finished wheels: where they are installed, what is required of them, and what is asked of the run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cpuwheels.config.matrix import Library, Matrix, load_matrix
from cpuwheels.config.options import ParityOptions, SpeedOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import TargetNotBuiltError, UsageError
from cpuwheels.kernels.memory.limits import CpuLimit
from cpuwheels.pipeline import test_wheel as module
from cpuwheels.sandbox.confine import Confined
from cpuwheels.toolchain.native_helpers import CpuFeatures
from cpuwheels.verification.benchmark.result import SpeedResult
from cpuwheels.verification.benchmark.run import SpeedRequest
from cpuwheels.verification.emulation.cpus import Cpu
from cpuwheels.verification.onednn_isa import OnednnLimit
from cpuwheels.verification.parity.run import ParityRequest
from cpuwheels.wheel.kernel_wheel import KernelWheel
from kernel_request import TARGET

HERE = CpuFeatures(architecture="x86_64", vendor="", model="A CPU", features=frozenset({"avx2"}), xcr0=None, amx=None)
LIBRARIES = {name: f"vllm/{name}.abi3.so" for name in ("_C_AVX512", "_C_AVX2")}


def plan_of(confined: Confined) -> dict[str, Any]:
    """Return what the sandbox is told."""
    plan: dict[str, Any] = json.loads(Path(confined.argv[confined.argv.index("--") - 1]).read_text())
    return plan


@pytest.fixture
def matrix(project_root: Path) -> Matrix:
    libraries = (
        Library(name="_C_AVX512", isa=(), needs=("avx512f",)),
        Library(name="_C_AVX2", isa=(), needs=("avx2",)),
    )
    target = TARGET.model_copy(update={"libraries": libraries, "chooser": "_C", "baseline": "x86-64"})
    found = load_matrix(project_root)
    return found.model_copy(update={"targets": (target, found.target("arm"))})


class Steps:
    """Notes the steps of a test, in order."""

    def __init__(self, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.base = base
        self.done: list[tuple[Any, ...]] = []
        self.libraries = dict(LIBRARIES)
        self.torch: dict[str, str] = {}
        self.trials = [
            Cpu("", frozenset({"avx2"}), [base / "python"], environment={"ONEDNN_MAX_CPU_ISA": "AVX2"}),
            Cpu("max", frozenset({"avx512f"}), [base / "qemu", base / "python"]),
        ]
        self.note: Any = SimpleNamespace(
            fixed_faults=("A fault",), onednn=SimpleNamespace(release="3.7.2"), untried={"_C_AVX512": ("Tiles",)}
        )
        self.limit = OnednnLimit("AVX2", "so it is", from_user=False)
        monkeypatch.setattr("platform.machine", lambda: "x86_64")
        monkeypatch.setattr("platform.system", lambda: "Linux")
        steps: dict[str, Callable[..., Any]] = {
            "read_wheel": self._read,
            "require_in_libraries": self._require_operators,
            "note_or_none": lambda _: self.note,
            "parity_environment": self._parity_environment,
            "require_chosen": self._chosen,
            "require_products": self._products,
            "run_parity": lambda request, environment, _: self.done.append(("parity", request)) or environment.site,
            "this_cpu": lambda _: HERE,
            "hold_onednn_back": lambda *_: self.limit,
            "usable_cpus": lambda: CpuLimit(6, "CPUs"),
            "torch_environment": lambda _, torch: SimpleNamespace(name=f"with torch {torch}", debian=None, places=[]),
            "separate_environment": self._separate,
            "install_wheel": self._install,
            "compare_wheels": self._compare,
        }
        for name, step in steps.items():
            monkeypatch.setattr(module, name, step)

    def kinds(self) -> list[str]:
        return [step[0] for step in self.done]

    def _read(self, path: Path, target: Any, markers: dict[str, str], option: str = "--wheel") -> KernelWheel:
        assert (target.id, markers["platform_machine"]) == ("x86", "x86_64")
        self.done.append(("read", path.name, option))
        return KernelWheel(path, "0" * 64, "1.0", self.torch.get(path.name, "2.13.0"), self.libraries)

    def _require_operators(self, asked: tuple[str, ...], wheels: list[KernelWheel], _nobody: str) -> None:
        self.done.append(("operators", asked, [wheel.path.name for wheel in wheels]))

    def _parity_environment(self, _context: object, wheel: KernelWheel, options: ParityOptions, work: Path) -> Any:
        assert work.is_dir()
        self.done.append(("environment", wheel.path.name, options))
        trials = tuple(SimpleNamespace(cpu=cpu) for cpu in self.trials)
        return SimpleNamespace(trials=trials, site="the site", machine="A CPU", confine="a sandbox")

    def _products(self, python: Path, env: Any, _log: Path, confine: Any) -> None:
        if confine != "a sandbox":
            plan = plan_of(confine([python], {}))
            assert plan["folder"] == str(python.parent.parent / "temporary")
        self.done.append(("products", python, dict(env)))

    def _chosen(self, cpus: list[Cpu], target: Any, site: object, _log: Path, *, confine: object) -> dict[str, str]:
        assert confine == "a sandbox"
        self.done.append(("chosen", [cpu.name for cpu in cpus], target.chooser, site))
        return {"": "_C_AVX2", "max": "_C_AVX512"}

    def _separate(self, environment: Any, folder: Path, lock: Path, _logs: Path) -> Path:
        assert folder.name == "venv"
        self.done.append(("separate", environment.name, folder.parent.name, lock.name))
        return folder / "python"

    def _install(self, wheel: Path, python: Path, lock: Path, _logs: Path) -> Path:
        self.done.append(("install", wheel.name, python.parent.parent.name, lock.name))
        return python.parent / "site"

    def _compare(self, request: SpeedRequest, own: Any, other: Any, *, script: Path, **_: object) -> Any:
        self.done.append(("compare", request, own, other, script))
        return SimpleNamespace(speeds=lambda: ["a speed"], left_out=["left out"])


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(tmp_path, monkeypatch)


@pytest.fixture
def paths(tmp_path: Path, project_root: Path) -> Paths:
    return Paths(project_root, tmp_path / "cache", tmp_path / "dist")


@pytest.fixture
def check(steps: Steps, paths: Paths, matrix: Matrix, reporter: Reporter) -> Callable[..., object]:
    assert steps.done == []
    options = ParityOptions(level="deep", operators=("scale",))
    return lambda: module.check_wheel(paths, matrix, "x86", Path("a.whl"), options, reporter)


def test_what_chooses_and_the_products_are_tested_before_the_cases(check: Callable[..., object], steps: Steps) -> None:
    assert check() == "the site"
    assert steps.kinds() == ["read", "operators", "environment", "chosen", "products", "parity"]
    assert steps.done[1][1:] == (("scale",), ["a.whl"])
    assert steps.done[2][2] == ParityOptions(level="deep", operators=("scale",))
    assert steps.done[3][1:] == (["", "max"], "_C", "the site")
    # Emulated CPUs have no products of their own.
    assert steps.done[4][1:] == (steps.base / "python", {"ONEDNN_MAX_CPU_ISA": "AVX2"})
    request = steps.done[5][1]
    assert isinstance(request, ParityRequest)
    assert (request.wheel.path.name, request.target.id, request.only) == ("a.whl", "x86", ("scale",))
    assert (request.fixed_faults, request.onednn) == (("A fault",), "3.7.2")
    assert request.untried == {"_C_AVX512": ("Tiles",)}


def test_a_wheel_of_somebody_elses_has_the_known_faults(check: Callable[..., object], steps: Steps) -> None:
    steps.note = None
    check()
    assert (steps.done[-1][1].fixed_faults, steps.done[-1][1].onednn) == ((), "")


def test_a_wheel_without_our_chooser_is_not_asked_what_it_chooses(check: Callable[..., object], steps: Steps) -> None:
    steps.libraries["_C"] = "vllm/_C.abi3.so"
    check()
    assert "chosen" not in steps.kinds()


@pytest.fixture
def compare(steps: Steps, paths: Paths, matrix: Matrix, reporter: Reporter) -> Callable[..., SpeedResult]:
    assert steps.done == []

    def compare(name: str = "x86", **given: Any) -> SpeedResult:
        options = replace(SpeedOptions(against=Path("other/b.whl")), **given)
        return module.compare_speed(paths, matrix, name, Path("a.whl"), options, reporter)

    return compare


def test_each_wheel_has_its_own_environment(
    compare: Callable[..., SpeedResult], steps: Steps, project_root: Path
) -> None:
    steps.torch["b.whl"] = "2.12.0"
    result = compare(operators=("scale",), rounds=27, cases=3)
    assert steps.done[:7] == [
        ("read", "a.whl", "--wheel"),
        ("read", "b.whl", "--against"),
        ("operators", ("scale",), ["a.whl", "b.whl"]),
        ("separate", "with torch 2.13.0", "wheel", "build-tools.txt"),
        ("install", "a.whl", "wheel", "parity.txt"),
        ("separate", "with torch 2.12.0", "against", "build-tools.txt"),
        ("install", "b.whl", "against", "parity.txt"),
    ]
    _, request, own, other, script = steps.done[-1]
    assert request == SpeedRequest("_C_AVX2", ("scale",), 27, 3, 6)
    assert (own.wheel.path.name, own.site.parts[-3:], own.env) == (
        "a.whl",
        ("wheel", "venv", "site"),
        {"ONEDNN_MAX_CPU_ISA": "AVX2"},
    )
    assert (other.wheel.path.name, other.site.parts[-3:]) == ("b.whl", ("against", "venv", "site"))
    assert script == project_root / "tests" / "parity" / "time_cases.py"
    assert script.is_file()
    sandbox = {"mechanism": "not sandboxed", "reason": "a test"}
    found: Any = (("a speed",), ("left out",))
    expected = SpeedResult(request, own, other, *found, "A CPU", steps.limit, sandbox, ("3.7.2", "3.7.2"))
    assert result == expected


@pytest.mark.parametrize(("torch", "count"), [("2.13.0", 1), ("2.12.0", 2)])
def test_the_products_of_each_torch_are_tested_once(
    compare: Callable[..., SpeedResult], steps: Steps, torch: str, count: int
) -> None:
    steps.torch["b.whl"] = torch
    compare()
    assert steps.kinds().count("products") == count


def test_the_threads_and_the_library_are_the_users(compare: Callable[..., SpeedResult], steps: Steps) -> None:
    compare(threads=2, library="_C_AVX2")
    assert steps.done[-1][1].threads == 2
    with pytest.raises(UsageError, match="avx512f"):
        compare(library="_C_AVX512")


def test_what_cannot_be_compared_has_nothing_installed(compare: Callable[..., SpeedResult], steps: Steps) -> None:
    with pytest.raises(UsageError, match="would be compared with itself"):
        compare(against=Path("a.whl"))
    with pytest.raises(TargetNotBuiltError):
        compare("arm")
    assert steps.kinds() == ["read", "read", "operators"]
