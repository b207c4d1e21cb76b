"""Which options oneDNN's files are compiled with (cmake/steer/onednn.cmake): a stand-in in its folders."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from cmake_build import built
from layout import ROOT
from onednn_stand_in import PROJECT

ONEDNN = """set(CMAKE_CXX_FLAGS "${CMAKE_CXX_FLAGS} -DOF_THE_FOLDER=1")
add_definitions(-DDEFINED=1)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_EXTENSIONS OFF)
file(GLOB_RECURSE SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/src/*.cpp ${CMAKE_CURRENT_SOURCE_DIR}/src/*.hpp)
set_source_files_properties(${CMAKE_CURRENT_SOURCE_DIR}/src/gemm/a_autogen.cpp PROPERTIES COMPILE_FLAGS -O1)
add_library(dnnl_x64 OBJECT ${SOURCES})
target_include_directories(dnnl_x64 PRIVATE src)
add_library(dnnl STATIC $<TARGET_OBJECTS:dnnl_x64>)
"""

OWN = """#pragma once
static_assert(OF_THE_FOLDER && DEFINED && __STRICT_ANSI__ && __cplusplus == 201703L);
"""

GENERATED = ("gemm/a_autogen", "gemm/b_autogen", "gemm/c_autogen")
BY_HAND = ("gemm/kern", "injector")
RARE = ("jit_one", "jit_two", "jit_three")
HOT = ("matmul", "driver")
UNUSED = "gemm/d_autogen"

SETTINGS = {
    "CMAKE_BUILD_TYPE": "Release",
    "CMAKE_EXPORT_COMPILE_COMMANDS": "ON",
    "STEER": str(ROOT / "cmake/steer"),
    "CPUWHEELS_ONEDNN_RARE": r"of_other_cpus=/x;dnnl_x64=/src/jit_",
    "CPUWHEELS_ONEDNN_UNOPTIMISED": r"dnnl_x64=/src/(gemm/|injector)",
    "CPUWHEELS_ONEDNN_TOGETHER": r"2=_autogen\.cpp$",
    "CPUWHEELS_PRECOMPILED": "dnnl_x64=own.hpp;dnnl_x64_unoptimised=own.hpp",
}


def _name(source: str) -> str:
    return source.replace("/", "_")


def _compiled(tmp_path: Path, unused: str, **changed: str) -> dict[str, tuple[str, str]]:
    """Build the stand-in; return the last option for optimisation and the text, by the names of compiled files."""
    names = (*GENERATED, *BY_HAND, *RARE, *HOT)
    calls = "".join(f"int {_name(name)}(); " for name in names)
    texts = {
        "source/CMakeLists.txt": PROJECT,
        "source/main.cpp": f"{calls}int main() {{ return {' + '.join(f'{_name(name)}()' for name in names)}; }}\n",
        "source/unused.txt": unused,
        "onednn/CMakeLists.txt": ONEDNN,
        "onednn/src/own.hpp": OWN,
        "onednn/src/injector.hpp": "#error a header is no source\n",
        **{
            f"onednn/src/{name}.cpp": f'#include "own.hpp"\nint {_name(name)}() {{ return 0; }}\n'
            for name in (*names, UNUSED)
        },
    }
    build = built(tmp_path, texts, {**SETTINGS, **changed}, source="source")
    assert subprocess.run([build / "program"], check=False).returncode == 0
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = Path(entry["file"])
        if "cmake_pch" not in path.name:
            assert "-DOF_THE_FOLDER=1" in entry["command"] or path.name == "main.cpp"
            found[path.stem] = (re.findall(r" (-O\S+)", entry["command"])[-1], path.read_text())
    return found


def test_optimisation_follows_how_often_code_runs(tmp_path: Path) -> None:
    found = _compiled(tmp_path, "src/gemm/d_autogen.cpp\n")
    options = {name: option for name, (option, _) in found.items() if name != "main"}
    assert options == {
        **dict.fromkeys(("together_0", "together_1", "kern", "injector"), "-O0"),
        **dict.fromkeys(RARE, "-Os"),
        **dict.fromkeys(HOT, "-O3"),
    }
    assert found["together_0"][1] == "#include <gemm/a_autogen.cpp>\n#include <gemm/b_autogen.cpp>\n"
    assert found["together_1"][1] == "#include <gemm/c_autogen.cpp>\n"
    assert found["injector"][1] == "#include <injector.cpp>\n"


def test_few_rare_files_are_the_exception(tmp_path: Path) -> None:
    rare = "dnnl_x64=/src/jit_one"
    found = _compiled(tmp_path, "src/gemm/d_autogen.cpp\n", CPUWHEELS_ONEDNN_RARE=rare)
    assert {name for name, (option, _) in found.items() if option == "-Os"} == {"jit_one"}
    assert {name for name, (option, _) in found.items() if option == "-O3"} == {"main", "jit_two", "jit_three", *HOT}


def test_an_option_of_a_file_counts_more(tmp_path: Path) -> None:
    found = _compiled(tmp_path, "src/gemm/d_autogen.cpp\n", CPUWHEELS_FILE_OPTIONS=r"-O1=/src/jit_two\.cpp$")
    assert {name for name, (option, _) in found.items() if option == "-O1"} == {"jit_two"}
    assert {name for name, (option, _) in found.items() if option == "-Os"} == {"jit_one", "jit_three"}


@pytest.mark.parametrize(
    ("unused", "changed"),
    [("# none is known\n", {}), ("src/gemm/d_autogen.cpp\n", {"CPUWHEELS_ONEDNN_UNOPTIMISED": ""})],
    ids=["not learned", "not set"],
)
def test_nothing_is_compiled_together(tmp_path: Path, unused: str, changed: dict[str, str]) -> None:
    found = _compiled(tmp_path, unused, **changed)
    assert not [name for name in found if name.startswith("together")]
    assert "-O0" not in {option for option, _ in found.values()}
    assert {_name(name).removeprefix("gemm_") for name in (*GENERATED, *BY_HAND)} <= set(found)
