"""oneDNN's code with the instruction sets that every CPU has (cmake/steer/onednn.cmake): a stand-in in its folders."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cmake_build import built
from layout import ROOT
from onednn_stand_in import PROJECT

TRAITS = """#pragma once
namespace dnnl { namespace impl { namespace cpu { namespace x64 {
enum cpu_isa_t : unsigned { sse41 = 1, avx = 3, avx2 = 7, avx512_core = 15 };
unsigned get_max_cpu_isa_mask(bool soft = false);
static inline bool mayiuse(const cpu_isa_t cpu_isa, bool soft = false) {
    return (get_max_cpu_isa_mask(soft) & cpu_isa) == cpu_isa;
}
}}}}
"""

GEMM = """#include "cpu/x64/cpu_isa_traits.hpp"
void kernel_avx512(); void kernel_avx2(); void kernel_avx(); void kernel_sse41(); void kernel_none();
namespace dnnl { namespace impl { namespace cpu {
void choose() {
    if (x64::mayiuse(x64::avx512_core)) kernel_avx512();
    else if (x64::mayiuse(x64::avx2)) kernel_avx2();
    else if (x64::mayiuse(x64::avx)) kernel_avx();
    else if (x64::mayiuse(x64::sse41, true)) kernel_sse41();
    else kernel_none();
}
bool asked(unsigned isa) { return x64::mayiuse(x64::cpu_isa_t(isa)); }
}}}
"""

MAIN = """#include <cstdio>
#include <initializer_list>
namespace dnnl { namespace impl { namespace cpu {
bool asked(unsigned isa);
namespace x64 { unsigned get_max_cpu_isa_mask(bool) { return 0; } }
}}}
void kernel_avx512() {} void kernel_avx2() {} void kernel_avx() {} void kernel_sse41() {} void kernel_none() {}
int main() { for (unsigned isa : {1u, 3u, 7u, 15u}) std::printf("%d", dnnl::impl::cpu::asked(isa)); }
"""

ONEDNN = """add_library(dnnl_cpu_x64 OBJECT src/cpu/gemm.cpp)
target_include_directories(dnnl_cpu_x64 PRIVATE src)
add_library(dnnl STATIC $<TARGET_OBJECTS:dnnl_cpu_x64>)
"""

ALL = {"kernel_avx512", "kernel_avx2", "kernel_avx", "kernel_sse41", "kernel_none"}


@pytest.mark.parametrize(
    ("floor", "kernels", "answers"),
    [("", ALL, "0000"), ("sse41;avx", ALL - {"kernel_sse41", "kernel_none"}, "1100"),
     ("sse41;avx;avx2", {"kernel_avx512", "kernel_avx2"}, "1110")],
    ids=["none", "AVX", "AVX2"],
)  # fmt: skip
@pytest.mark.parametrize("precompiled", ["", "dnnl_cpu_x64=cpu/x64/cpu_isa_traits.hpp"], ids=["plain", "precompiled"])
@pytest.mark.parametrize("optimised", ["-O3", "-Os"])
def test_kernels_below_the_floor_are_not_referred_to(
    tmp_path: Path, *, floor: str, kernels: set[str], answers: str, precompiled: str, optimised: str
) -> None:
    texts = {
        "source/CMakeLists.txt": PROJECT,
        "source/main.cpp": MAIN,
        "source/unused.txt": "# none\n",
        "onednn/CMakeLists.txt": ONEDNN,
        "onednn/src/cpu/gemm.cpp": GEMM,
        "onednn/src/cpu/x64/cpu_isa_traits.hpp": TRAITS,
    }
    settings = {
        "CMAKE_CXX_FLAGS": optimised,
        "STEER": str(ROOT / "cmake/steer"),
        "CPUWHEELS_ONEDNN_FLOOR": floor,
        "CPUWHEELS_PRECOMPILED": precompiled,
    }
    build = built(tmp_path, texts, settings, source="source")
    (compiled,) = build.rglob("gemm.cpp.o")
    listed = subprocess.run(["nm", "-uC", compiled], check=True, capture_output=True, text=True).stdout
    assert {line.split()[1].removesuffix("()") for line in listed.splitlines() if "kernel_" in line} == kernels
    said = subprocess.run([build / "program"], check=True, capture_output=True, text=True).stdout
    assert said == answers
