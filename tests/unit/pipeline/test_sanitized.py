"""Parity of kernels for sanitizers: what is compiled, with what, and when it is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cpuwheels.config.debian_lock import DebianLock
from cpuwheels.config.matrix import Matrix, load_matrix
from cpuwheels.config.options import ParityOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import ToolchainError, UsageError
from cpuwheels.core.trust import Trust
from cpuwheels.pipeline import sanitized as module
from cpuwheels.pipeline.sanitized import check_sanitized, reports_folder
from cpuwheels.verification.emulation.cpus import Cpu
from kernel_request import TARGET


class Stages:
    """Stands for the stages, and notes what they are given."""

    def __init__(self, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.base = base
        self.seen: dict[str, Any] = {}
        environment = SimpleNamespace(torch_version="2.13.0+cpu")
        inputs = SimpleNamespace(
            source=SimpleNamespace(version="0.32.0"),
            prepared=SimpleNamespace(fixed_faults=frozenset({"B", "A"})),
            environment=environment,
            request=lambda context, toolchain: ("request", context.options, toolchain),
        )
        plan = SimpleNamespace(jobs=2, reason="CPUs")
        stages: dict[str, Callable[..., Any]] = {
            "plan_jobs": lambda *_: plan,
            "wanted_source": lambda *_: SimpleNamespace(trust=Trust.RELEASE),
            "with_default_source": lambda context: (context, {}),
            "get_sandbox": lambda _: None,
            "unpacked_root": self._root,
            "upstream": lambda *_: "found",
            "compiler": lambda _: ("toolchain", SimpleNamespace(memgate=base / "memgate")),
            "gather": lambda *_: inputs,
            "memory_cap": lambda *_: None,
            "get_kernels": self._kernels,
            "sanitized_environment": self._environment,
            "require_products": lambda python, env, *_: self.seen.update(products=(python, env)),
            "run_parity": lambda request, *_: self.seen.update(parity=request) or "found",
        }
        for name, stage in stages.items():
            monkeypatch.setattr(module, name, stage)
        monkeypatch.setattr("platform.machine", lambda: "x86_64")
        monkeypatch.setattr("platform.system", lambda: "Linux")

    def _root(self, lock: DebianLock, kind: str, **rest: Any) -> Path:
        assert {package.name for package in lock.packages} >= {"libasan8", "libubsan1"}
        self.seen |= {"kind": kind, "finish": rest["finish"]}
        return self.base / "runtimes"

    def _kernels(self, _context: object, request: object, **_: object) -> Any:
        self.seen["request"] = request
        return SimpleNamespace(folder=self.base / "kernels")

    def _environment(self, _context: object, kernels: Path, *rest: Any) -> Any:
        self.seen |= {"kernels": kernels, "run": rest[2]}
        cpu = Cpu("", frozenset({"avx2"}), [self.base / "python"], environment={"ONEDNN_MAX_CPU_ISA": "AVX2"})
        return SimpleNamespace(trials=[SimpleNamespace(cpu=cpu)], confine="a sandbox")


@pytest.fixture
def stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stages:
    return Stages(tmp_path, monkeypatch)


def matrix_of(root: Path, **changes: object) -> Matrix:
    target = TARGET.model_copy(update={"sanitizers": "sanitizers-amd64", **changes})
    return load_matrix(root).model_copy(update={"targets": (target,)})


def test_libraries_of_a_release_are_compiled_for_sanitizers_and_tested_where_they_lie(
    tmp_path: Path, project_root: Path, stages: Stages, reporter: Reporter
) -> None:
    paths = Paths(project_root, tmp_path / "cache", tmp_path / "dist")
    options = ParityOptions(level="smoke", operators=("scale",), source="0.32.0")
    assert check_sanitized(paths, matrix_of(project_root), "x86", "address", options, reporter) == "found"
    _, build, toolchain = stages.seen["request"]
    assert (build.source, build.toolchain, build.sanitize) == ("0.32.0", "debian", "address")
    assert not build.upstream_kernels  # the patches of a release's wheel
    assert toolchain == "toolchain"
    assert stages.seen["kernels"] == tmp_path / "kernels"
    assert stages.seen["run"].folder == tmp_path / "runtimes"
    python, env = stages.seen["products"]
    assert python == tmp_path / "python"
    assert env["ONEDNN_MAX_CPU_ISA"] == "AVX2"
    assert "halt_on_error=0" in env["ASAN_OPTIONS"]
    request = stages.seen["parity"]
    assert request.wheel.libraries == {"_C": "vllm/_C.abi3.so", "_C_AVX2": "vllm/_C_AVX2.abi3.so"}
    assert request.wheel.path.name == "vLLM 0.32.0 with AddressSanitizer and UndefinedBehaviorSanitizer"
    assert (request.wheel.sha256, request.only, request.fixed_faults) == ("", ("scale",), ["A", "B"])
    assert list((tmp_path / "dist").rglob("*.whl")) == []


def test_a_wheel_is_refused(tmp_path: Path, project_root: Path, reporter: Reporter) -> None:
    paths = Paths(project_root, tmp_path / "cache", tmp_path / "dist")
    options = ParityOptions(wheel=Path("a.whl"))
    with pytest.raises(UsageError, match="a wheel has no kernels that were compiled for sanitizers"):
        check_sanitized(paths, matrix_of(project_root), "x86", "address", options, reporter)


@pytest.mark.usefixtures("stages")
def test_a_target_without_run_times_is_refused(tmp_path: Path, project_root: Path, reporter: Reporter) -> None:
    paths = Paths(project_root, tmp_path / "cache", tmp_path / "dist")
    with pytest.raises(UsageError, match="no run times of sanitizers are pinned for target 'x86'"):
        check_sanitized(paths, matrix_of(project_root, sanitizers=None), "x86", "address", ParityOptions(), reporter)


def test_reports_lie_where_no_wheel_is_looked_for(tmp_path: Path) -> None:
    paths = Paths(tmp_path, tmp_path, tmp_path / "dist")
    assert reports_folder(paths, "x86", "address") == tmp_path / "dist/x86/sanitizers-address"


def test_llvms_openmp_runtime_is_there_under_the_name_of_gnus(
    tmp_path: Path, project_root: Path, stages: Stages, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = Paths(project_root, tmp_path / "cache", tmp_path / "dist")
    check_sanitized(paths, matrix_of(project_root), "x86", "thread", ParityOptions(), reporter)
    asked: list[list[str]] = []
    monkeypatch.setattr(module, "run", lambda command, **_: asked.append([str(part) for part in command]))
    monkeypatch.setattr(module, "patchelf", lambda: Path("/bin/patchelf"))
    fresh = tmp_path / "fresh"
    (fresh / "usr/lib/llvm-19/lib").mkdir(parents=True)
    (fresh / "usr/lib/llvm-19/lib/libomp.so.5").write_text("LLVM's")
    with pytest.raises(ToolchainError, match="the packages lack Archer"):
        stages.seen["finish"](fresh, tmp_path / "final")
    (fresh / "usr/lib/llvm-19/lib/libarcher.so").touch()
    stages.seen["finish"](fresh, tmp_path / "final")
    runtime = fresh / "openmp/libgomp.so.1"
    assert runtime.read_text() == "LLVM's"
    assert asked == [["/bin/patchelf", "--set-soname", "libgomp.so.1", str(runtime)]]
    assert str(runtime.relative_to(fresh)) in stages.seen["run"].sanitizers.runtimes
