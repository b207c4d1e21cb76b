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
foreach(_target one other)
  add_library(${{_target}} INTERFACE)
  set_target_properties(${{_target}} PROPERTIES COMPILE_OPTIONS "{given}" SOURCES "a.cpp;b.cpp;${{_target}}.cpp")
endforeach()
set_source_files_properties(b.cpp PROPERTIES COMPILE_OPTIONS "-own")
cpuwheels_change_options(one)
cpuwheels_change_options(other)
get_target_property(left one COMPILE_OPTIONS)
message(STATUS "left: ${{left}}.")
foreach(_file a b one other)
  get_source_file_property(options ${{_file}}.cpp COMPILE_OPTIONS)
  message(STATUS "${{_file}}: ${{options}}.")
endforeach()
"""


def configured(folder: Path, given: str, **entries: str) -> str:
    """What CMake says about the options of two targets that share the files a.cpp and b.cpp.

    Raises:
        CalledProcessError: CMake failed.
    """
    (folder / "CMakeLists.txt").write_text(PROJECT.format(options=OPTIONS.as_posix(), given=given))
    for name in ("a", "b", "one", "other"):
        (folder / f"{name}.cpp").touch()
    defined = [f"-DCPUWHEELS_{name.upper()}_OPTIONS={value}" for name, value in entries.items()]
    command = [Path(sys.executable).parent / "cmake", "-S", folder, "-B", folder / "build", *defined]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


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
    assert f"left: {left}." in configured(tmp_path, given, without=without, more=more)


@pytest.mark.parametrize(
    ("of_files", "expected"),
    [
        ("", {"a": "NOTFOUND", "b": "-own", "one": "NOTFOUND", "other": "NOTFOUND"}),
        ("-O3=(^|/)(a|other)\\.cpp$", {"a": "-O3", "b": "-own", "one": "NOTFOUND", "other": "-O3"}),
        ("-O3=b\\.cpp$;-mtune=znver4=[ab]\\.cpp$", {"a": "-mtune=znver4", "b": "-own;-O3;-mtune=znver4"}),
        ("-own=b\\.cpp$", {"b": "-own"}),
        ("-O3=nothing", {"a": "NOTFOUND"}),
    ],
)
def test_single_files_have_options_of_their_own_once(tmp_path: Path, of_files: str, expected: dict[str, str]) -> None:
    said = configured(tmp_path, "-g", file=of_files)
    assert "left: -g." in said
    for name, options in expected.items():
        assert f"{name}: {options}." in said
