"""Which of oneDNN's lists are left out (cmake/steer/implementations.cmake): a stand-in in its folders, run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from cmake_build import built
from layout import ROOT
from onednn_stand_in import PROJECT

ENGINE = """#pragma once
#include <map>
#include <vector>
namespace dnnl { namespace impl {
struct lrn_desc_t {}; struct shuffle_desc_t {}; struct matmul_desc_t {};
using impl_list_item_t = const char *;
namespace cpu {
const impl_list_item_t *get_lrn_impl_list(const lrn_desc_t *desc);
const impl_list_item_t *get_matmul_impl_list(const matmul_desc_t *desc);
const impl_list_item_t *get_shuffle_impl_list(shuffle_desc_t desc);
struct cpu_engine_impl_list_t { static const impl_list_item_t *get_sum_implementation_list(); };
}}}
"""

REORDER = """#pragma once
#include "cpu/cpu_engine.hpp"
namespace dnnl { namespace impl { namespace cpu {
using impl_list_map_t = std::map<int, std::vector<impl_list_item_t>>;
extern const impl_list_map_t &regular_f32_f32_impl_list_map();
extern const impl_list_map_t &regular_f32_u8_impl_list_map();
extern const impl_list_map_t &comp_s8_s8_impl_list_map();
extern const impl_list_map_t &other_name();
const impl_list_map_t &found(int of);
}}}
"""

CHOOSER = """#include "cpu/reorder/cpu_reorder.hpp"
namespace dnnl { namespace impl { namespace cpu {
const impl_list_map_t &found(int of) {
    static const std::vector<const impl_list_map_t *> all = {
            &regular_f32_f32_impl_list_map(), &regular_f32_u8_impl_list_map(), &comp_s8_s8_impl_list_map(),
            &other_name()};
    return *all[of];
}
}}}
"""

MAIN = """#include <cstdio>
#include "cpu/reorder/cpu_reorder.hpp"
using namespace dnnl::impl;
void tell(const char *name, const impl_list_item_t *list) {
    std::printf("%s:", name);
    for (; *list != nullptr; ++list) std::printf(" %s", *list);
    std::printf("\\n");
}
int main() {
    lrn_desc_t lrn; matmul_desc_t matmul;
    tell("lrn", cpu::get_lrn_impl_list(&lrn));
    tell("matmul", cpu::get_matmul_impl_list(&matmul));
    tell("shuffle", cpu::get_shuffle_impl_list({}));
    tell("sum", cpu::cpu_engine_impl_list_t::get_sum_implementation_list());
    for (int i = 0; i < 4; ++i) std::printf("reorder %d: %d\\n", i, int(cpu::found(i).size()));
}
"""

ONEDNN = """set(DNNL_ENABLE_PRIMITIVE "ALL" CACHE STRING "")
file(GLOB_RECURSE SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/src/*.cpp)
add_library(dnnl_cpu OBJECT ${SOURCES})
target_include_directories(dnnl_cpu PRIVATE src)
add_library(dnnl STATIC $<TARGET_OBJECTS:dnnl_cpu>)
target_include_directories(dnnl PUBLIC src)
"""


def _list(signature: str, name: str) -> str:
    body = f'    static const impl_list_item_t list[] = {{"{name}", nullptr}};\n    return list;\n'
    start = '#include "cpu/cpu_engine.hpp"\nnamespace dnnl { namespace impl { namespace cpu {\n'
    return f"{start}const impl_list_item_t *{signature} {{\n{body}}}\n}}}}}}\n"


def _map(function: str) -> str:
    start = '#include "cpu/reorder/cpu_reorder.hpp"\nnamespace dnnl { namespace impl { namespace cpu {\n'
    body = '    static const impl_list_map_t the_map = {{1, {"one"}}};\n    return the_map;\n'
    return f"{start}const impl_list_map_t &{function}() {{\n{body}}}\n}}}}}}\n"


FILES = {
    "cpu_engine.hpp": ENGINE,
    "cpu_lrn_list.cpp": _list("get_lrn_impl_list(\n        const lrn_desc_t *desc)", "lrn"),
    "cpu_shuffle_list.cpp": _list("get_shuffle_impl_list(shuffle_desc_t desc)", "shuffle"),
    "matmul/cpu_matmul_list.cpp": _list("get_matmul_impl_list(const matmul_desc_t *desc)", "matmul"),
    "cpu_sum.cpp": _list("cpu_engine_impl_list_t::get_sum_implementation_list()", "sum"),
    "cpu_rest.cpp": "// no list\n",
    "reorder/cpu_reorder.hpp": REORDER,
    "reorder/cpu_reorder.cpp": CHOOSER,
    "reorder/cpu_reorder_regular_f32_f32.cpp": _map("regular_f32_f32_impl_list_map"),
    "reorder/cpu_reorder_regular_f32_u8.cpp": _map("regular_f32_u8_impl_list_map"),
    "reorder/cpu_reorder_comp_s8_s8.cpp": _map("comp_s8_s8_impl_list_map"),
    "reorder/cpu_reorder_other.cpp": _map("other_name"),
}
GENERATED = "dnnl_cpu"
LISTS = {"cpu_lrn_list", "cpu_sum"}
KEPT = "regular_f32_f32;comp_s8_s8"
WHOLE = {"lrn": "lrn", "matmul": "matmul", "shuffle": "shuffle", "sum": "sum"} | {f"reorder {n}": "1" for n in range(4)}


@pytest.mark.parametrize(
    ("primitives", "reorders", "left_out", "empty"),
    [
        ("MATMUL;REORDER", KEPT, {*LISTS, "cpu_reorder_regular_f32_u8"}, {"lrn": "", "sum": "", "reorder 1": "0"}),
        ("MATMUL;REORDER", "", LISTS, {"lrn": "", "sum": ""}),
        ("MATMUL;REORDER;SUM", "", {"cpu_lrn_list"}, {"lrn": ""}),
        ("ALL", "comp_s8_s8", {"cpu_reorder_regular_f32_f32", "cpu_reorder_regular_f32_u8"},
         {"reorder 0": "0", "reorder 1": "0"}),
        ("ALL", "", set(), {}),
    ],
    ids=["both", "primitives", "one primitive", "reorders", "neither"],
)  # fmt: skip
@pytest.mark.parametrize("precompiled", ["", "dnnl_cpu=cpu/cpu_engine.hpp"], ids=["plain", "precompiled"])
def test_lists_that_nobody_asks_for_are_empty(
    tmp_path: Path, *, primitives: str, reorders: str, left_out: set[str], empty: dict[str, str], precompiled: str
) -> None:
    texts = {
        "source/CMakeLists.txt": PROJECT,
        "source/main.cpp": MAIN,
        "source/unused.txt": "# none\n",
        "onednn/CMakeLists.txt": ONEDNN,
        **{f"onednn/src/cpu/{name}": text for name, text in FILES.items()},
    }
    settings = {
        "CMAKE_EXPORT_COMPILE_COMMANDS": "ON",
        "STEER": str(ROOT / "cmake/steer"),
        "DNNL_ENABLE_PRIMITIVE": primitives,
        "CPUWHEELS_ONEDNN_REORDERS": reorders,
        "CPUWHEELS_PRECOMPILED": precompiled,
    }
    build = built(tmp_path, texts, settings, source="source")
    compiled = {Path(entry["file"]).stem for entry in json.loads((build / "compile_commands.json").read_text())}
    sources = {Path(name).stem for name in FILES if name.endswith(".cpp")}
    written = {GENERATED} if left_out else set()
    assert {name for name in compiled if "cmake_pch" not in name} == sources - left_out | written | {"main"}
    said = subprocess.run([build / "program"], check=True, capture_output=True, text=True).stdout
    assert dict(line.split(":", 1) for line in said.splitlines()) == {
        name: f" {text}" if text else "" for name, text in (WHOLE | empty).items()
    }
