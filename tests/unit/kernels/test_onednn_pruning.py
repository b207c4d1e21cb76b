"""Which files of oneDNN a build can leave out: read from link maps, learned, and checked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cpuwheels.kernels.onednn_pruning import (
    lacks_onednn,
    read_unused,
    still_unused,
    unused_files,
    unused_name,
    write_unused,
)
from cpuwheels.kernels.workspace import Workspace
from cpuwheels.source.acl import Acl
from elf_writer import Elf
from kernel_request import FIRST, kernel_request

MAP = """\
Archive member included to satisfy reference by file (symbol)

_deps/onednn-build/src/libdnnl.a(matmul_pd.cpp.o)
                              CMakeFiles/_C.dir/csrc/cpu/dnnl_kernels.cpp.o (dnnl_primitive_desc_create)
_deps/onednn-build/src/libdnnl.a(utils.cpp.o)
                              _deps/onednn-build/src/libdnnl.a(matmul_pd.cpp.o) (getenv_int)
/gcc/lib/libstdc++.a(string.o)
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    workspace = Workspace(tmp_path, FIRST)
    workspace.build.mkdir()
    workspace.modules_list.write_text("_C\n_C_AVX2\n")
    (workspace.build / "_C.map").write_text(MAP)
    (workspace.build / "_C_AVX2.map").write_text("libdnnl.a(reorder.cpp.o)\nLOAD libdnnl.a\n")
    names = ["common/utils.cpp", "cpu/x64/utils.cpp", "common/matmul_pd.cpp", "cpu/reorder.cpp", "cpu/rnn/ref_rnn.cpp"]
    entries = [
        {"file": f"{workspace.onednn}/src/{name}", "output": f"{workspace.build}/_deps/x.dir/{name}.o"}
        for name in names
    ]
    entries.append({"file": f"{workspace.source}/csrc/cpu/a.cpp", "output": f"{workspace.build}/a.cpp.o"})
    (workspace.build / "compile_commands.json").write_text(json.dumps(entries))
    return workspace


def test_what_no_module_links_is_unused(workspace: Workspace):
    assert unused_files(workspace) == ["src/cpu/rnn/ref_rnn.cpp"]


def test_maps_that_name_no_member_mean_nothing(workspace: Workspace):
    """A module that has no oneDNN, or a linker with other maps, is no proof that all of it is unused."""
    for module in workspace.modules():
        (workspace.build / f"{module}.map").write_text("other linker\n")
    assert unused_files(workspace) == []


def test_a_list_is_of_one_machine_and_backend(tmp_path: Path):
    absent, there = Acl(None, "v52.6.0", None, "absent", {}), Acl(tmp_path, "v52.6.0", "c" * 40, "pinned", {})
    names = [unused_name(kernel_request(tmp_path, acl=acl)) for acl in (None, absent, there)]
    assert names[0] == names[1] == f"onednn-x86_64-{'c' * 16}.txt"
    assert names[2] == f"onednn-x86_64-acl-{'c' * 16}.txt"


def test_lists_survive_writing(tmp_path: Path):
    write_unused(tmp_path / "a.txt", ["src/b.cpp", "src/c.cpp"], "why\nand when")
    assert (tmp_path / "a.txt").read_text() == "# why\n# and when\nsrc/b.cpp\nsrc/c.cpp\n"
    assert read_unused(tmp_path / "gone.txt", tmp_path / "a.txt") == ["src/b.cpp", "src/c.cpp"]
    assert read_unused(tmp_path / "gone.txt") == []


def test_the_first_place_counts_also_when_it_is_empty(tmp_path: Path):
    write_unused(tmp_path / "empty.txt", [])
    write_unused(tmp_path / "full.txt", ["src/a.cpp"])
    assert read_unused(tmp_path / "empty.txt", tmp_path / "full.txt") == []


@pytest.mark.parametrize(
    ("known", "found", "kept"), [([], ["a", "b"], ["a", "b"]), (["b", "c"], ["a", "b"], ["b"]), (["c"], ["a"], [])]
)
def test_only_what_all_sources_leave_unused_stays_on_the_list(known, found, kept):
    assert still_unused(known, found) == kept


def test_a_symbol_that_nothing_offers_is_found(workspace: Workspace):
    needed = ["_ZN4dnnl4impl3cpu6matmulEv", "dnnl_primitive_create", "PyErr_SetString", "malloc"]
    for module, symbols in (("_C", needed), ("_C_AVX2", ["malloc"])):
        (workspace.build / f"{module}.abi3.so").write_bytes(Elf(loose=tuple(symbols)).write())
    assert lacks_onednn(workspace) == ["_ZN4dnnl4impl3cpu6matmulEv", "dnnl_primitive_create"]


@pytest.fixture
def shared(workspace: Workspace) -> Path:
    """A library that the modules have in common, with a map of its own."""
    workspace.libraries_list.write_text("cpuwheels_dnnl\n")
    (workspace.build / "cpuwheels_dnnl.map").write_text("libdnnl.a(ref_rnn.cpp.o)\n")
    return workspace.build / "libcpuwheels_dnnl.so"


@pytest.mark.usefixtures("shared")
def test_what_the_shared_library_links_is_used(workspace: Workspace):
    assert unused_files(workspace) == []


def test_what_the_shared_library_offers_is_not_lacking(workspace: Workspace, shared: Path):
    calls = ("dnnl_matmul", "dnnl_primitive_create", "malloc")
    for module in workspace.modules():
        workspace.module(module).write_bytes(Elf(loose=calls).write())
    shared.write_bytes(Elf(exports=("dnnl_primitive_create",), loose=("_ZN4dnnl4impl4gone",)).write())
    assert lacks_onednn(workspace) == ["_ZN4dnnl4impl4gone", "dnnl_matmul"]
