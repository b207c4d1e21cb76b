"""What kernels are named by: the files that were read for them, and everything beside the source."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cpuwheels.core.errors import CompileError
from cpuwheels.core.store import Store
from cpuwheels.kernels.depfile import KIND, Reads, kernels_key, read_files, reads_cache
from cpuwheels.kernels.request import KernelRequest
from cpuwheels.kernels.workspace import Workspace
from kernel_request import FIRST, environment, kernel_request

READS = Reads(
    files=("CMakeLists.txt", "csrc/cpu/norm.cpp", "csrc/cpu/types.hpp", "csrc/gone.hpp"), folders=("csrc/cpu",)
)
TREE = {
    "csrc/cpu/norm.cpp": "int norm;\n",
    "csrc/cpu/types.hpp": "struct vec {};\n",
    "csrc/gpu/attention.cu": "gpu\n",
    "csrc/cpu/generate.py": "print()\n",
    "cmake/cpu.cmake": "# cpu\n",
}


@pytest.fixture
def request_(tmp_path: Path) -> KernelRequest:
    (tmp_path / "env" / "bin").mkdir(parents=True)
    return kernel_request(tmp_path, TREE, environment=environment(python=tmp_path / "env" / "bin" / "python"))


def says(request: KernelRequest, text: str, status: int = 0) -> None:
    ninja = request.environment.scripts / "ninja"
    ninja.write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\nexit {status}\n")
    ninja.chmod(0o755)


@pytest.mark.parametrize(
    "name", ["csrc/cpu/norm.cpp", "csrc/cpu/types.hpp", "CMakeLists.txt", "csrc/gone.hpp", "csrc/cpu/new.hpp"]
)
def test_what_was_read_or_may_now_be_found_changes_the_key(request_: KernelRequest, name: str):
    before = kernels_key(request_, READS)
    (request_.source.folder / name).write_text("other\n")
    assert kernels_key(request_, READS) != before


def test_a_file_that_goes_changes_the_key(request_: KernelRequest):
    before = kernels_key(request_, READS)
    (request_.source.folder / "csrc/cpu/types.hpp").unlink()
    assert kernels_key(request_, READS) != before


@pytest.mark.parametrize("name", ["csrc/gpu/attention.cu", "csrc/gpu/new.cu", "vllm/engine.py", "csrc/gpu/README.md"])
def test_what_was_not_read_leaves_the_key_alone(request_: KernelRequest, name: str):
    before = kernels_key(request_, READS)
    (request_.source.folder / name).parent.mkdir(exist_ok=True)
    (request_.source.folder / name).write_text("other\n")
    assert kernels_key(request_, READS) == before


@pytest.mark.parametrize(
    "name",
    [
        "cmake/new.cmake",
        "cmake/cpu.cmake",
        "csrc/gpu/CMakeLists.txt",
        "csrc/gpu/more.cmake",
        "csrc/cpu/generate.py",
        "csrc/gpu/run",
        "csrc/template.h.in",
    ],
)
def test_what_a_build_may_run_changes_the_key_whatever_was_read(request_: KernelRequest, name: str):
    before = kernels_key(request_, READS)
    (request_.source.folder / name).parent.mkdir(exist_ok=True)
    (request_.source.folder / name).write_text("other\n")
    assert kernels_key(request_, READS) != before


def test_what_stands_beside_the_source_changes_the_key(tmp_path: Path):
    one = kernel_request(tmp_path / "one", TREE)
    other = kernel_request(tmp_path / "other", TREE, debug_symbols=True)
    assert kernels_key(one, READS) != kernels_key(other, READS)
    assert kernels_key(one, READS) == kernels_key(kernel_request(tmp_path / "elsewhere", TREE), READS)


def test_reads_come_from_ninjas_log(request_: KernelRequest, tmp_path: Path):
    workspace = Workspace(tmp_path / "work", FIRST)
    workspace.build.mkdir(parents=True)
    says(
        request_,
        f"""CMakeFiles/_C.dir/csrc/cpu/norm.cpp.o: #deps 4, deps mtime 1 (VALID)
    {workspace.source}/csrc/cpu/norm.cpp
    {workspace.source}/csrc/cpu/../cpu/types.hpp
    ../vllm/csrc/cpu/generated.hpp
    /usr/include/stdio.h

cmake_pch.hxx.gch: #deps 1, deps mtime 1 (VALID)
    cmake_pch.hxx
""",
    )
    reads = read_files(request_, [workspace], tmp_path / "store")
    assert set(reads.files) >= {
        "csrc/cpu/norm.cpp",
        "csrc/cpu/types.hpp",
        "csrc/cpu/generated.hpp",
        "CMakeLists.txt",
        "cmake/cpu.cmake",
        "csrc/cpu/generate.py",
    }
    assert not {name for name in reads.files if "gpu" in name or "stdio" in name or "pch" in name}
    assert reads.folders == ("csrc/cpu",)


@pytest.mark.parametrize("path", ["/etc/hostname", "/root/.ssh/id_rsa", "../../../secret", "/usr/../etc/passwd"])
def test_a_file_of_the_machine_that_a_compiler_read_is_refused(request_: KernelRequest, tmp_path: Path, path: str):
    workspace = Workspace(tmp_path / "store" / "work" / "kernels", FIRST)
    workspace.build.mkdir(parents=True)
    own = f"{workspace.source}/csrc/cpu/norm.cpp"
    says(request_, f"norm.cpp.o: #deps 3, deps mtime 1 (VALID)\n    {own}\n    /usr/include/stdio.h\n")
    read_files(request_, [workspace], tmp_path / "store")
    outside = "../" * 9 + "secret" if path.startswith("..") else path
    says(request_, f"norm.cpp.o: #deps 2, deps mtime 1 (VALID)\n    {own}\n    {outside}\n")
    with pytest.raises(CompileError, match=r"a compiler read /.*neither the source's nor the toolchain's"):
        read_files(request_, [workspace], tmp_path / "store")


def test_a_path_that_ends_at_a_blank_is_that_of_the_build(request_: KernelRequest, tmp_path: Path):
    workspace = Workspace(tmp_path / "other cache" / "work" / "kernels", FIRST)
    workspace.build.mkdir(parents=True)
    own = f"{workspace.source}/csrc/cpu/norm.cpp"
    cut = f"norm.cpp.o: #deps 3, deps mtime 1 (VALID)\n    {own}\n    {tmp_path}/other\n    cache/work/kernels/x.gch\n"
    says(request_, cut)
    assert "csrc/cpu/norm.cpp" in read_files(request_, [workspace], tmp_path / "other cache").files
    says(request_, cut.replace("/other\n", "/others\n"))
    with pytest.raises(CompileError, match="a compiler read"):
        read_files(request_, [workspace], tmp_path / "other cache")


@pytest.mark.parametrize("name", ["/etc/passwd", "../other", "a/../../b", "a\nb", "./a", "a//b"])
def test_forged_reads_are_passed_over(request_: KernelRequest, tmp_path: Path, name: str):
    store = Store(tmp_path / "store")
    reads_cache(request_, store).keep(READS)
    (path,) = (store.root / KIND).rglob("*.json")
    for field in ("files", "folders"):
        other = {"files": [], "folders": []} | {field: [name]}
        path.with_name(f"{field}.json").write_text(json.dumps(other))
    assert list(reads_cache(request_, store).known()) == [READS]


@pytest.mark.parametrize(("text", "status"), [("", 0), ("ninja: error: loading deps\n", 1)])
def test_a_log_that_says_nothing_is_a_fault(request_: KernelRequest, tmp_path: Path, text: str, status: int):
    workspace = Workspace(tmp_path / "work", FIRST)
    workspace.build.mkdir(parents=True)
    says(request_, text, status)
    with pytest.raises(CompileError, match="files that the compilers read"):
        read_files(request_, [workspace], tmp_path / "store")


def test_reads_are_kept_and_the_latest_comes_first(request_: KernelRequest, tmp_path: Path):
    store = Store(tmp_path / "store")
    assert list(reads_cache(request_, store).known()) == []
    other = Reads(files=("csrc/cpu/norm.cpp",), folders=())
    reads_cache(request_, store).keep(READS)
    (first,) = (store.root / KIND).rglob("*.json")
    os.utime(first, (1, 1))
    reads_cache(request_, store).keep(other)
    assert list(reads_cache(request_, store).known()) == [other, READS]
    reads_cache(request_, store).keep(READS)
    assert len(list((store.root / KIND).rglob("*.json"))) == 2
    assert list(reads_cache(request_, store).known()) == [READS, other]


def test_damaged_reads_are_passed_over(request_: KernelRequest, tmp_path: Path):
    store = Store(tmp_path / "store")
    reads_cache(request_, store).keep(READS)
    (path,) = (store.root / KIND).rglob("*.json")
    path.with_name("bad.json").write_text('{"files": ')
    path.with_name("old.json").write_text('{"files": [], "folders": [], "more": 1}')
    assert list(reads_cache(request_, store).known()) == [READS]
