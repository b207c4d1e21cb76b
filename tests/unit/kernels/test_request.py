from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from cpuwheels.source.acl import Acl
from cpuwheels.source.onednn import OneDnn
from cpuwheels.source.patches import AppliedPatch
from kernel_request import TARGET, environment, kernel_request, toolchain

if TYPE_CHECKING:
    from pathlib import Path


def other_target(**changes: Any) -> dict[str, Any]:
    return {"target": TARGET.model_copy(update=changes)}


def other_onednn(folder: Path) -> dict[str, Any]:
    return {"onednn": OneDnn(folder, "v3.13", "3.7.2", "d" * 64, "alternate")}


@pytest.mark.parametrize(
    "replaced",
    [
        {"environment": environment(torch_version="2.14.0+cpu")},
        {"environment": environment(torch_digest="others")},
        {"environment": environment(tools={"cmake": "4.1.0"})},
        {"toolchain": toolchain(digest="another")},
        {"debug_symbols": True},
        {"sanitize": "address"},
        other_target(defines={"ENABLE_AMX_FP8": "ON"}),
        other_target(cpuinfo="x86-64 v4"),
        other_target(floor="manylinux_2_31"),
        other_target(machine="aarch64"),
    ],
)
def test_an_input_changes_the_key(tmp_path: Path, replaced: dict[str, Any]) -> None:
    assert kernel_request(tmp_path, **replaced).key() != kernel_request(tmp_path).key()


def test_so_does_a_patch_for_it(tmp_path: Path) -> None:
    bare = other_onednn(tmp_path)
    patched = replace(bare["onednn"], patches=(AppliedPatch("0001-a.patch", "p" * 64, "applied"),))
    assert kernel_request(tmp_path, onednn=patched).key() != kernel_request(tmp_path, **bare).key()


def test_steering_for_sanitizers_counts_for_them_alone(tmp_path: Path) -> None:
    plain, sanitized = kernel_request(tmp_path), kernel_request(tmp_path, sanitize="address")
    before = plain.key(), sanitized.key()
    assert "sanitize" not in plain.beside_source()
    (tmp_path / "root" / "cmake" / "sanitize.cmake").write_text("other\n")
    assert plain.key() == before[0]
    assert sanitized.key() != before[1]


def test_another_onednn_changes_the_key(tmp_path: Path) -> None:
    assert kernel_request(tmp_path, **other_onednn(tmp_path)).key() != kernel_request(tmp_path).key()


def test_arm_compute_library_changes_the_key_by_content_and_options(tmp_path: Path) -> None:
    def key(*acl: Any) -> str:
        return kernel_request(tmp_path, acl=Acl(*acl) if acl else None).key()

    there = key(tmp_path, "v52.6.0", "c" * 40, "pinned", {"A": "1"})
    assert key(tmp_path / "elsewhere", "v52.6.0", "c" * 40, "tag", {"A": "1"}) == there
    assert key(tmp_path, "v52.6.0", "c" * 40, "pinned", {"A": "2"}) != there
    assert key(tmp_path, "v52.6.0", "d" * 40, "pinned", {"A": "1"}) != there
    # What is declined is not there.
    assert key(None, "v52.6.0", None, "absent", {"A": "1"}) == key() != there


@pytest.mark.parametrize(
    ("name", "matters"),
    [
        ("csrc/cpu/ops.cpp", True),
        ("csrc/cpu/new.cpp", True),
        ("cmake/cpu_extension.cmake", True),
        ("CMakeLists.txt", True),
        ("vllm/__init__.py", False),
        ("setup.py", False),
        ("requirements/cpu.txt", False),
    ],
)
def test_which_of_upstreams_files_matter(tmp_path: Path, name: str, matters: bool) -> None:
    before = kernel_request(tmp_path).key()
    assert (kernel_request(tmp_path, {name: "// changed\n"}).key() != before) is matters


@pytest.mark.parametrize(
    ("name", "matters"),
    [
        ("steer.cmake", True),
        ("steer/onednn.cmake", True),
        ("toolchains/gnu.cmake", True),
        ("toolchains/x86.cmake", True),
        ("toolchains/arm.cmake", False),
    ],
)
def test_which_steering_files_matter(tmp_path: Path, name: str, matters: bool) -> None:
    request = kernel_request(tmp_path)
    before = request.key()
    (request.root / "cmake" / name).write_text("# changed\n")
    assert (request.key() != before) is matters


@pytest.mark.parametrize(
    "replaced",
    [
        {"environment": environment(python="/other/bin/python", site_packages="/other/site")},
        {"environment": environment(python_version="3.13")},
        {"environment": environment(torch_from="elsewhere")},
        {"environment": environment(tools={"cmake": "4.0.0", "ninja": "1.14"})},
        {"toolchain": toolchain(description="the same elsewhere", refused=("g++: too old",))},
        other_target(description="the same in other words", worst_peak=1),
    ],
)
def test_what_does_not_reach_the_bytes_does_not_change_the_key(tmp_path: Path, replaced: dict[str, Any]) -> None:
    assert kernel_request(tmp_path, **replaced).key() == kernel_request(tmp_path).key()


def test_the_place_of_the_sources_does_not_change_the_key(tmp_path: Path) -> None:
    here, there = kernel_request(tmp_path / "here"), kernel_request(tmp_path / "there")
    assert here.key() == there.key()
    assert replace(here, source=replace(here.source, version="0.32.1")).key() == here.key()
