"""What files read of torch (cmake/steer/headers.cmake), by CMake and the compiler: headers of a stand-in for torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from cmake_build import built
from layout import ROOT

PROJECT = f"""\
cmake_minimum_required(VERSION 3.26)
project(headers LANGUAGES CXX)
include({ROOT.as_posix()}/cmake/steer/headers.cmake)
add_library(kernels MODULE kernels.cpp)
set_target_properties(kernels PROPERTIES CXX_STANDARD 20)
target_include_directories(kernels SYSTEM PRIVATE torch-headers)
cpuwheels_narrow_torch(kernels)
cpuwheels_precompile_headers(kernels)
"""

HEADERS = {
    "torch/all.h": "#pragma once\n#include <torch/types.h>\n#include <torch/nn.h>\n",
    "torch/types.h": "#pragma once\n#include <torch/library.h>\n#include <chrono>\nstruct Tensor {};\n",
    "torch/library.h": "#pragma once\n#define TORCH_LIBRARY 1\n",
    "torch/nn.h": "#define TORCH_MODULE 1\n",
}

READ = """\
#ifdef TORCH_MODULE
"modules"
#endif
#ifdef TORCH_LIBRARY
"library"
#endif
#ifdef _CHRONO_IO_H
"clocks as text"
#endif
"""

SETTINGS = {
    "CPUWHEELS_TORCH_ALL": "torch/types.h",
    "CPUWHEELS_TORCH_WITHOUT": "torch/library.h",
    "CPUWHEELS_EMPTY_HEADERS": "bits/chrono_io.h",
}


def read(folder: Path, includes: str, settings: dict[str, str]) -> set[str]:
    """What a file has read that includes these headers."""
    source = f'{includes}\nextern "C" const char* read() {{ Tensor used; (void)used; return ""\n{READ}; }}\n'
    texts = {
        "CMakeLists.txt": PROJECT,
        "kernels.cpp": source,
        **{f"torch-headers/{name}": text for name, text in HEADERS.items()},
    }
    build = built(folder, texts, settings)
    code = (build / "libkernels.so").read_bytes()
    return {word for word in ("modules", "library", "clocks as text") if word.encode() in code}


@pytest.mark.parametrize(
    ("includes", "changed", "found"),
    [
        ("#include <torch/all.h>", {}, set()),
        ("#include <torch/all.h>\n#include <torch/library.h>", {}, {"library"}),
        ("#include <torch/library.h>\n#include <torch/all.h>", {}, {"library"}),
        ("#include <torch/types.h>", {}, {"library"}),
        ("#include <torch/all.h>", {"CPUWHEELS_TORCH_WITHOUT": ""}, {"library"}),
        ("#include <torch/all.h>", {"CPUWHEELS_TORCH_ALL": "torch/types.h;torch/nn.h"}, {"modules"}),
        ("#include <torch/all.h>", {"CPUWHEELS_TORCH_ALL": ""}, {"modules", "library"}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("precompiled", ["", "kernels=torch/all.h"], ids=["plain", "precompiled"])
def test_a_file_reads_less_of_torch(
    tmp_path: Path, includes: str, changed: dict[str, str], found: set[str], precompiled: str
) -> None:
    settings = SETTINGS | changed | {"CPUWHEELS_PRECOMPILED": precompiled}
    # A precompiled header is read before what the file includes itself.
    if precompiled and includes.startswith("#include <torch/types.h>"):
        settings["CPUWHEELS_PRECOMPILED"] = "kernels=torch/types.h"
    assert read(tmp_path, includes, settings) == found


@pytest.mark.parametrize(("empty", "found"), [("bits/chrono_io.h", set()), ("", {"clocks as text"})])
@pytest.mark.parametrize("torch_all", ["torch/types.h", ""], ids=["tensors", "all of torch"])
def test_headers_that_no_kernel_needs_are_empty(tmp_path: Path, empty: str, found: set[str], torch_all: str) -> None:
    """libstdc++ writes clocks as text from GCC 13 on, and an older one reads no header of that name."""
    header = "#include <bits/chrono_io.h>\n#include <torch/all.h>"
    chrono_io = tmp_path / "torch-headers/bits/chrono_io.h"
    chrono_io.parent.mkdir(parents=True)
    chrono_io.write_text("#define _CHRONO_IO_H 1\n")
    settings = SETTINGS | {"CPUWHEELS_EMPTY_HEADERS": empty, "CPUWHEELS_TORCH_ALL": torch_all}
    assert read(tmp_path, header, settings) - {"modules", "library"} == found
