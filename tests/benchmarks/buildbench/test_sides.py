"""What each side is told, and what is read back from it."""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from buildbench import ours, unsteered
from buildbench.measure import Usage
from buildbench.ours import KEPT, Ours, read_record
from buildbench.setting import Setting
from buildbench.unsteered import Unsteered, measured_run, unsteered_settings

from bench_results import results
from cpuwheels.config.paths import Paths
from cpuwheels.core.console import Reporter
from cpuwheels.core.digests import file_digest
from kernel_request import kernel_request
from ledger_records import job

RECORD = {
    "jobs": {"at_once": 2, "compiled_in_this_run": True},
    "memory": {"cap": 100, "how": "a watch", "peak": 90, "jobs": 2},
    "sandbox": {"mechanism": "a namespace", "reason": ""},
    "seconds": {"kernels": 12.5},
    "files": [job("a.o", 0, 1, user=1.0, system=0.5, peak=7).model_dump()],
    "else": 1,
}
USAGE = Usage(wall=20, cpu=30, peak=5, group_peak=6, others_cpu=0.5, pace=0.0101)


@pytest.fixture
def setting(tmp_path: Path, reporter: Reporter) -> Setting:
    made = results()
    request = kernel_request(tmp_path)
    paths = Paths(request.root, tmp_path / "work/cache", tmp_path / "work/dist")
    paths.cache.mkdir(parents=True)
    return Setting(
        paths=paths,
        work=tmp_path / "work",
        source=request.source.folder,
        plain=lambda: tmp_path / "plain",
        request=request,
        memgate=Path("/bin/memgate"),
        ccache=None,
        cpus=2,
        machine=made.machine,
        subject=made.subject,
        reporter=reporter,
    )


def test_upstreams_project_gets_upstreams_settings(setting: Setting) -> None:
    workspace = Unsteered(setting).workspace
    found = unsteered_settings(setting, workspace)
    assert found["CMAKE_BUILD_TYPE"] == "RelWithDebInfo"
    assert found["CMAKE_JOB_POOLS:STRING"] == "compile=2"
    assert found["FETCHCONTENT_SOURCE_DIR_ONEDNN"] == str(workspace.onednn)
    assert found["ENABLE_AMX_FP8"] == "OFF"
    own = {name for name in found if name.startswith("CPUWHEELS_")}
    assert own == {
        "CPUWHEELS_CPUINFO",
        "CPUWHEELS_PYTHON",
        "CPUWHEELS_PYTHON_INCLUDE_DIRS",
        "CPUWHEELS_PYTHON_VERSION",
        "CPUWHEELS_STEERING",
    }
    assert not any("FLAGS" in name or "VISIBILITY" in name for name in found)
    provider = Path(found["CMAKE_PROJECT_TOP_LEVEL_INCLUDES"])
    assert provider.name == "unsteered.cmake"
    assert provider.is_file()


def test_what_only_our_steering_reads_is_left_out(setting: Setting) -> None:
    target = setting.request.target.model_copy(update={"defines": {"CPUWHEELS_PRECOMPILED": "x", "ENABLE_A": "ON"}})
    changed = replace(setting, request=replace(setting.request, target=target))
    found = unsteered_settings(changed, Unsteered(changed).workspace)
    assert found["ENABLE_A"] == "ON"
    assert "CPUWHEELS_PRECOMPILED" not in found


def test_jobs_are_measured_without_a_gate(setting: Setting) -> None:
    side = Unsteered(setting)
    env = side.environment()
    assert env["CMAKE_CXX_COMPILER_LAUNCHER"] == f"exec;/bin/memgate;--ledger;{side.workspace.ledger};--"
    assert env["CMAKE_CXX_LINKER_LAUNCHER"] == f"/bin/memgate;--ledger;{side.workspace.ledger};--"
    assert env["VLLM_TARGET_DEVICE"] == "cpu"


def test_a_build_of_something_else_does_not_stand(setting: Setting) -> None:
    def ready(**changes: str) -> tuple[bool, bool]:
        now = replace(setting, subject=setting.subject.model_copy(update=changes))
        return Unsteered(now).ready(), Ours(now, "", "").ready()

    assert ready() == (False, False)
    side = Unsteered(setting)
    side.workspace.folder.mkdir(parents=True)
    (side.workspace.folder / "built-of.txt").write_text(setting.unsteered_fingerprint)
    (setting.paths.cache / "built-of.txt").write_text(setting.fingerprint)
    assert ready() == (True, True)
    assert ready(built="another") == (False, False)
    assert ready(beside_source="another") == (True, False)


def test_upstreams_wheel_is_compiled_from_sources_without_our_patches(
    setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    side, made = Unsteered(setting), {}
    for folder, text in ((side.workspace.source, "patched"), (setting.plain(), "plain")):
        for name, content in (("csrc/same.cpp", "same"), ("csrc/cpu/a.cpp", text), ("vllm/a.py", text)):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content)
    same = side.workspace.source / "csrc/same.cpp"
    os.utime(same, (1, 1))
    side.workspace.modules_list.parent.mkdir(parents=True)
    side.workspace.modules_list.write_text("_C\n")
    (side.workspace.folder / "built-of.txt").write_text(setting.unsteered_fingerprint)

    def ninja(argv: list[str | Path], *, log: Path, env: dict[str, str]) -> Usage:
        assert log.name == "log"
        assert Path(argv[0]).name == "ninja"
        assert env["VLLM_TARGET_DEVICE"] == "cpu"
        made["compiled"] = (side.workspace.source / "csrc/cpu/a.cpp").read_text()
        return USAGE

    def write(ours: Path, modules: dict[str, Path], out: Path, *, work: Path, strip: Path) -> None:
        made["wheel"] = (ours, modules, out, work.parent, strip)

    monkeypatch.setattr(unsteered, "measure", ninja)
    monkeypatch.setattr(unsteered, "write_upstream_wheel", write)
    measured = side.wheel(tmp_path / "log", tmp_path / "ours.whl", tmp_path / "out")
    assert measured.cpu == USAGE.cpu
    assert made["compiled"] == "plain"
    modules = {"_C": side.workspace.module("_C")}
    strip = setting.request.toolchain.strip
    assert made["wheel"] == (tmp_path / "ours.whl", modules, tmp_path / "out", side.workspace.folder, strip)
    assert same.stat().st_mtime == 1
    assert (side.workspace.source / "vllm/a.py").read_text() == "patched"
    assert not side.ready()


def test_every_attempt_of_a_job_counts() -> None:
    records = [job("a.o", 0, 1, user=1.0, system=0.5, peak=7), job("a.o", 1, 1, user=2.0, system=0.0, peak=9)]
    found = measured_run(datetime(2026, 11, 21, tzinfo=UTC), USAGE, records, kernels=12.345, stages={})
    assert (found.jobs, found.jobs_cpu, found.largest_job) == (2, 3.5, 9)
    assert (found.wall, found.cpu, found.peak, found.group_peak, found.kernels) == (20, 30, 5, 6, 12.35)
    assert found.began == "2026-11-21T00:00:00+00:00"


class Build:
    """Stands in for the command: notes how it was called and leaves what a build leaves."""

    def __init__(self, output: Path, record: dict[str, object] | None) -> None:
        self.output, self.record = output, record
        self.calls: list[tuple[list[str], dict[str, str]]] = []

    def __call__(self, argv: list[str | Path], *, log: Path, env: dict[str, str]) -> Usage:
        assert log.name == "log"
        self.calls.append(([str(part) for part in argv], env))
        if self.record is not None:
            self.output.mkdir(parents=True, exist_ok=True)
            (self.output / "record.json").write_text(json.dumps(self.record))
        return USAGE


@pytest.fixture
def side(setting: Setting) -> Ours:
    return Ours(setting, "csrc/cpu/a.cpp", "vllm/__init__.py")


def built(side: Ours, monkeypatch: pytest.MonkeyPatch, record: dict[str, object] | None) -> Build:
    build = Build(side.setting.paths.output("x86", "0.32.0"), record)
    monkeypatch.setattr(ours, "measure", build)
    return build


def test_a_cold_build_finds_nothing_that_was_built(side: Ours, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*KEPT, "kernels", "measured", "work", "compiler-cache"):
        (side.setting.paths.cache / name).mkdir()
    monkeypatch.setenv("CPUWHEELS_COMPILER_CACHE_REMOTE", "redis://127.0.0.1")
    build = built(side, monkeypatch, RECORD)
    measured = side.cold(tmp_path / "log")
    assert {path.name for path in side.setting.paths.cache.iterdir() if path.is_dir()} == KEPT
    assert (side.tree / "PKG-INFO").is_file()
    argv, env = build.calls[0]
    assert argv[argv.index("build") :] == ["build", "x86", "--source", str(side.tree)]
    assert "CPUWHEELS_COMPILER_CACHE_REMOTE" not in env
    assert (measured.jobs, measured.kernels, measured.cap, measured.gate_peak, measured.held) == (
        1,
        12.5,
        100,
        90,
        "a watch",
    )
    assert side.ready()


def test_a_capped_build_is_cold_and_leaves_nothing_to_build_upon(
    side: Ours, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = built(side, monkeypatch, RECORD)
    side.cold(tmp_path / "log")
    (side.setting.paths.cache / "kernels").mkdir()
    side.capped(tmp_path / "log", "4G")
    assert build.calls[1][0][-2:] == ["--memory", "4G"]
    assert not (side.setting.paths.cache / "kernels").exists()
    assert not side.ready()


def test_parity_is_measured_with_its_environments_there(
    side: Ours, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = built(side, monkeypatch, None)
    measured = side.parity(tmp_path / "log", "full", emulated=False)
    side.parity(tmp_path / "log", "smoke", emulated=True)
    arguments = [argv[argv.index("parity") :] for argv, _ in build.calls]
    alone = "--no-emulation"
    assert arguments[:2] == [["parity", "x86", "--level", level, alone] for level in ("smoke", "full")]
    assert arguments[2:] == [["parity", "x86", "--level", "smoke"]] * 2
    assert (measured.wall, measured.cpu, measured.jobs) == (USAGE.wall, USAGE.cpu, 0)


def test_what_was_not_compiled_in_this_run_is_not_counted(
    side: Ours, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    side.forget()
    built(side, monkeypatch, RECORD | {"jobs": {"compiled_in_this_run": False}})
    python = side.setting.source / "vllm/__init__.py"
    assert not python.is_file() or "benchmark" not in python.read_text()
    (side.tree / "vllm").mkdir(exist_ok=True)
    (side.tree / "vllm/__init__.py").write_text("")
    measured = side.python_changed(tmp_path / "log")
    assert (measured.jobs, measured.jobs_cpu, measured.cap, measured.gate_peak) == (0, 0, None, None)
    assert "benchmark edit" in (side.tree / "vllm/__init__.py").read_text()


def test_a_wheel_that_is_not_made_again_has_no_stages(
    side: Ours, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = built(side, monkeypatch, None)
    record = build.output / "record.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps(RECORD))
    os.utime(record, (1, 1))
    measured = side.unchanged(tmp_path / "log")
    assert len(build.calls) == 2
    assert (measured.stages, measured.kernels, measured.jobs) == ({}, None, 0)


def test_a_record_counts_from_a_moment_on(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    assert read_record(path, 0) is None
    path.write_text(json.dumps(RECORD))
    os.utime(path, (100, 100))
    assert read_record(path, 101) is None
    found = read_record(path, 99)
    assert found is not None
    assert found.seconds == {"kernels": 12.5}


def test_sizes_are_those_in_the_wheel(side: Ours) -> None:
    output = side.setting.paths.output("x86", "0.32.0")
    output.mkdir(parents=True)
    wheel = output / "vllm-0.32.0.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("vllm/_C.abi3.so", b"1234")
        archive.writestr("vllm/a.py", b"a = 1")
        archive.writestr("vllm.libs/libcpuwheels_dnnl-918e2568.so", b"123456")
        archive.writestr("vllm.libs/libnuma-c2968dac.so.1.0.0", b"12")
    size = wheel.stat().st_size
    described = {"file": wheel.name, "sha256": file_digest(wheel), "size": size, "versions": [], "policy": "p"}
    record = {"wheel_key": "k", "wheel": described, "beside": [], "jobs": {"compiled_in_this_run": True}}
    (output / "record.json").write_text(json.dumps(record))
    assert side.sizes() == ({"_C": 4, "libcpuwheels_dnnl": 6}, size)
    assert side.wheel() == wheel
