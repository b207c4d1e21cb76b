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
cpuwheels_change_options(kernels)
get_target_property(left kernels COMPILE_OPTIONS)
message(STATUS "left: ${{left}}.")
"""


@pytest.mark.parametrize(
    ("given", "without", "more", "left"),
    [
        ("-fopenmp;-fno-tree-pre;-mavx2", "-fno-tree-pre", "", "-fopenmp;-mavx2"),
        ("-fno-tree-pre", "-fno-tree-pre", "", ""),
        ("-fopenmp;-mavx2", "-fno-tree-pre", "", "-fopenmp;-mavx2"),
        ("-fopenmp;-fno-tree-pre", "", "", "-fopenmp;-fno-tree-pre"),
        ("-a;-b;-c", "-c;-a", "", "-b"),
        ("-a;-b", "-a", "-c;-d", "-b;-c;-d"),
        ("-a", "-a", "-c", "-c"),
        ("", "-a", "-c", "-c"),
        ("", "", "", ""),
    ],
)
def test_options_are_left_out_and_added(tmp_path: Path, given: str, without: str, more: str, left: str) -> None:
    (tmp_path / "CMakeLists.txt").write_text(PROJECT.format(options=OPTIONS.as_posix(), given=given))
    cmake = Path(sys.executable).parent / "cmake"
    defined = [f"-DCPUWHEELS_WITHOUT_OPTIONS={without}", f"-DCPUWHEELS_MORE_OPTIONS={more}"]
    command = [cmake, "-S", tmp_path, "-B", tmp_path / "build", *defined]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert f"left: {left}." in done.stdout
