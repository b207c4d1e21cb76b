from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpuwheels.config.host import markers
from cpuwheels.config.matrix import load_matrix
from cpuwheels.core.errors import SourceError
from cpuwheels.source.upstream_pins import read_pins
from sample_source import ONEDNN, write_tree

if TYPE_CHECKING:
    from pathlib import Path

# Put together from what several releases have.
REQUIREMENTS = """\
# Common dependencies
-r common.txt
--extra-index-url https://download.pytorch.org/whl/cpu

setuptools==77.0.3 # this version can reuse CMake build dir
torch==2.13.0+cpu; platform_machine == "x86_64" or platform_machine == "s390x" or platform_machine == "aarch64"
torch==2.12.1; platform_system == "Darwin" or platform_machine == "ppc64le" # no CPU label there
torchaudio; platform_machine != "s390x"
triton @ https://example.invalid/triton.whl ; platform_machine == "x86_64"
"""
TWO = """\
if(ASIMD_FOUND)
    FetchContent_Populate(arm_compute
        SUBBUILD_DIR "${FETCHCONTENT_BASE_DIR}/arm_compute-subbuild"
        GIT_TAG        v52.6.0
    )
    FetchContent_Declare(
        oneDNN
        GIT_REPOSITORY https://example.invalid/oneDNN.git
        GIT_TAG 9c5be1cc59e368aebf0909e6cf20f981ea61462a # v3.12 and a fix
        GIT_PROGRESS TRUE
    )
else()
    fetchcontent_declare( onednn
        GIT_TAG   v3.13
    )
endif()
FetchContent_Declare(
    other
    GIT_TAG v1
)
"""


@pytest.mark.parametrize(
    ("target", "torch"), [("x86", "2.13.0"), ("arm", "2.13.0"), ("s390x", "2.13.0"), ("macos", "2.12.1")]
)
def test_each_target_has_its_torch(project_root: Path, tmp_path: Path, target: str, torch: str) -> None:
    folder = write_tree(tmp_path, {"requirements/cpu.txt": REQUIREMENTS, "cmake/cpu_extension.cmake": TWO})
    pins = read_pins(folder, markers(load_matrix(project_root).target(target), "3.11"))
    assert pins.torch == torch
    assert pins.onednn == ("9c5be1cc59e368aebf0909e6cf20f981ea61462a", "v3.13")
    assert pins.acl == ("v52.6.0",)


@pytest.mark.parametrize(
    ("cmake", "tags"),
    [(ONEDNN, ("v3.13",)), (ONEDNN * 2, ("v3.13",)), ("", ()), ("FetchContent_Declare(\n  oneDNN\n  URL x\n)\n", ())],
    ids=["one", "the same twice", "none", "by URL"],
)
def test_onednn_tags(tmp_path: Path, cmake: str, tags: tuple[str, ...]) -> None:
    folder = write_tree(tmp_path, {"cmake/cpu_extension.cmake": cmake})
    assert read_pins(folder, {"platform_machine": "x86_64"}).onednn == tags


@pytest.mark.parametrize(
    "text",
    ["", "torch>=2.13\n", "torch==2.13.0; platform_machine == 's390x'\n", "torchvision==0.1\n", "torch==2.13.*\n"],
)
def test_a_source_without_a_torch_pin_is_told(tmp_path: Path, text: str) -> None:
    with pytest.raises(SourceError, match="pins no torch for x86_64") as raised:
        read_pins(write_tree(tmp_path, {"requirements/cpu.txt": text}), {"platform_machine": "x86_64"})
    assert raised.value.where.endswith("requirements/cpu.txt")


@pytest.mark.parametrize("name", ["requirements/cpu.txt", "cmake/cpu_extension.cmake"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(SourceError, match=name.rsplit("/", 1)[-1]) as raised:
        read_pins(write_tree(tmp_path, {name: None}), {"platform_machine": "x86_64"})
    assert raised.value.where.endswith(name)
