"""``cmake/steer/options.cmake``, by CMake itself: without a compiler, on targets that compile nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from layout import ROOT

OPTIONS = ROOT / "cmake" / "steer" / "options.cmake"
PROJECT = """\
cmake_minimum_required(VERSION 3.26)
project(options LANGUAGES NONE)
include({options})
add_library(kernels INTERFACE)
set_target_properties(kernels PROPERTIES COMPILE_OPTIONS "{given}")
cpuwheels_drop_options(kernels)
get_target_property(left kernels COMPILE_OPTIONS)
message(STATUS "left: ${{left}}.")
"""


@pytest.mark.parametrize(
    ("given", "without", "left"),
    [
        ("-fopenmp;-fno-tree-pre;-mavx2", "-fno-tree-pre", "-fopenmp;-mavx2"),
        ("-fno-tree-pre", "-fno-tree-pre", ""),
        ("-fopenmp;-mavx2", "-fno-tree-pre", "-fopenmp;-mavx2"),
        ("-fopenmp;-fno-tree-pre", "", "-fopenmp;-fno-tree-pre"),
        ("-a;-b;-c", "-c;-a", "-b"),
    ],
)
def test_options_of_upstream_are_left_out(tmp_path: Path, given: str, without: str, left: str) -> None:
    (tmp_path / "CMakeLists.txt").write_text(PROJECT.format(options=OPTIONS.as_posix(), given=given))
    cmake = Path(sys.executable).parent / "cmake"
    command = [cmake, "-S", tmp_path, "-B", tmp_path / "build", f"-DCPUWHEELS_WITHOUT_OPTIONS={without}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert f"left: {left}." in done.stdout
