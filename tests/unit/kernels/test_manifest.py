from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from cpuwheels.kernels.depfile import Reads
from cpuwheels.kernels.manifest import KernelManifest, kernel_manifest
from cpuwheels.kernels.request import KernelRequest
from cpuwheels.kernels.result import Kernels
from kernel_request import environment, kernel_request

READS = Reads(files=("CMakeLists.txt", "csrc/cpu/ops.cpp", "csrc/cpu/late.h"), folders=("csrc/cpu", "csrc/gone"))


def said(request: KernelRequest, chooser: str | None = None, tcmalloc: str | None = None) -> KernelManifest:
    kernels = Kernels("key", Path("/k"), ("_C",), (), built=True, memory=None, reads=READS)  # type: ignore[arg-type]
    return kernel_manifest(request, kernels, chooser, tcmalloc)


@pytest.fixture
def request_(tmp_path: Path) -> KernelRequest:
    request = kernel_request(tmp_path)
    folder = request.source.folder / "csrc" / "cpu"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ops.cpp").write_text("int one;\n")
    (folder / "beside.h").write_text("int two;\n")
    return request


def test_the_same_source_has_no_differences_after_a_journey_through_the_wheel(request_: KernelRequest) -> None:
    once = said(request_, "c", "t")
    again = KernelManifest.model_validate_json(once.render())
    assert again == once
    assert again.render() == once.render()
    assert again.differences(request_, "c", "t") == []


def test_nothing_of_the_machine_is_said(request_: KernelRequest) -> None:
    text = said(request_).render().decode()
    assert str(request_.source.folder) not in text
    assert str(request_.root) not in text
    assert "/tc" not in text


def test_the_compiler_is_not_held_against_it(request_: KernelRequest) -> None:
    other = replace(request_, toolchain=replace(request_.toolchain, digest="another"))
    assert said(request_).differences(other, None, None) == []


def test_each_difference_is_named(request_: KernelRequest) -> None:
    before = said(request_)
    folder = request_.source.folder / "csrc" / "cpu"
    (folder / "ops.cpp").write_text("int changed;\n")
    (folder / "late.h").write_text("\n")
    (folder / "beside.h").rename(folder / "renamed.h")
    assert before.differences(request_, None, None) == [
        "csrc/cpu/late.h is new",
        "csrc/cpu/ops.cpp has other content",
        "csrc/cpu/renamed.h is new, where headers were looked for",
        "csrc/cpu/beside.h is gone, where headers were looked for",
    ]
    (folder / "ops.cpp").unlink()
    assert before.differences(request_, None, None)[1] == "csrc/cpu/ops.cpp is gone"


@pytest.mark.parametrize("name", ["cmake/new.cmake", "csrc/cpu/generate.py"])
def test_a_manifest_that_leaves_out_what_a_build_may_run_fits_no_source_with_it(
    request_: KernelRequest, name: str
) -> None:
    before = said(request_)
    assert "cmake/cpu_extension.cmake" in before.files  # whatever the build reported
    forged = before.model_copy(update={"files": {"csrc/cpu/ops.cpp": before.files["csrc/cpu/ops.cpp"]}})
    assert forged.differences(request_, None, None)[-2:] == [
        "CMakeLists.txt is new",
        "cmake/cpu_extension.cmake is new",
    ]
    (request_.source.folder / name).write_text("other")
    assert before.differences(request_, None, None)[0] == f"{name} is new"


def test_files_that_no_compiler_reads_do_not_count(request_: KernelRequest) -> None:
    before = said(request_)
    (request_.source.folder / "csrc" / "other.cu").write_text("\n")
    (request_.source.folder / "csrc" / "cpu" / "beside.h").write_text("int changed;\n")
    assert before.differences(request_, None, None) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"environment": environment(torch_version="2.14.0+cpu")}, 'torch: ["2.14.0+cpu", "torch"], not ["2.13.0+cpu"'),
        ({"onednn": None}, "onednn: null, not"),
        ({"debug_symbols": True}, "debug_symbols: true, not false"),
    ],
)
def test_what_is_beside_the_source_counts(request_: KernelRequest, changes: dict[str, Any], words: str) -> None:
    (difference,) = said(request_).differences(replace(request_, **changes), None, None)
    assert difference.startswith(words)


def test_our_steering_and_what_lies_next_to_the_kernels_count(request_: KernelRequest) -> None:
    before = said(request_, "a", "t")
    (request_.root / "cmake" / "steer.cmake").write_text("# changed\n")
    steering, *beside = before.differences(request_, "b", None)
    assert steering.startswith("steering: ")
    assert beside == ["the chooser's sources", "tcmalloc's sources"]


def test_another_format_is_refused(request_: KernelRequest) -> None:
    text = said(request_).render().replace(b'"format": 1', b'"format": 2')
    with pytest.raises(ValidationError):
        KernelManifest.model_validate_json(text)
