"""Finished modules on their way from the build folder into the store."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from cpuwheels.config.matrix import Library
from cpuwheels.core.errors import CommandError, CompileError
from cpuwheels.kernels.collect import collect
from cpuwheels.kernels.request import KernelRequest, configurations
from cpuwheels.kernels.workspace import Workspace
from kernel_request import TARGET, kernel_request, toolchain

TOOLS = {
    "strip": '[ "$1 $2" = "--strip-unneeded -o" ] && sed "s/ and debug symbols//" "$4" > "$3"',
    "objcopy": """case "$1" in
--only-keep-debug) echo "debug symbols of $2" > "$3" ;;
--add-gnu-debuglink=*) echo "see ${1#*=}" >> "$2" ;;
*) exit 1 ;;
esac""",
}
"""Programs that change a text as binutils change a module."""


@pytest.fixture
def request_(tmp_path: Path) -> KernelRequest:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, script in TOOLS.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    (tmp_path / "kept").mkdir()
    return kernel_request(tmp_path, toolchain=toolchain(**{name: programs / name for name in TOOLS}))


def built(request: KernelRequest, base: Path, *modules: str, libraries: tuple[str, ...] = ()) -> list[Workspace]:
    """Return the workspaces of a request in which the modules that it defines are finished."""
    spaces = [Workspace(base / "work", configuration) for configuration in configurations(request.target)]
    for space in spaces:
        space.build.mkdir(parents=True)
        space.modules_list.write_text(" ".join(modules))
        for name in space.modules():
            space.module(name).write_text(f"{name} of {space.build.parent.name} and debug symbols\n")
            space.module(name).chmod(0o600)
    if libraries:
        spaces[0].libraries_list.write_text(" ".join(libraries))
        for path in spaces[0].libraries():
            path.write_text(f"{path.name} and debug symbols\n")
    return spaces


def kept(base: Path) -> dict[str, str]:
    files = (path for path in (base / "kept").rglob("*") if path.is_file())
    return {path.relative_to(base / "kept").as_posix(): path.read_text() for path in files}


def test_modules_and_shared_libraries_are_stripped(request_: KernelRequest, tmp_path: Path) -> None:
    spaces = built(request_, tmp_path, "_C", "_C_AVX2", "spinloop", libraries=("cpuwheels_dnnl",))
    spaces[0].ledger.write_text("a job\n")
    collect(request_, spaces, tmp_path / "kept", tmp_path / "log")
    assert kept(tmp_path) == {
        "vllm/_C.abi3.so": "_C of work\n",
        "vllm/_C_AVX2.abi3.so": "_C_AVX2 of work\n",
        "vllm/spinloop.abi3.so": "spinloop of work\n",
        "libraries/libcpuwheels_dnnl.so": "libcpuwheels_dnnl.so\n",
        "jobs.jsonl": "a job\n",
    }
    assert all((tmp_path / "kept" / name).stat().st_mode & 0o777 == 0o755 for name in kept(tmp_path) if ".so" in name)


def test_each_configuration_gives_its_own_libraries_under_their_names_in_the_wheel(
    request_: KernelRequest, tmp_path: Path
) -> None:
    libraries = (Library(name="_C", isa=()), Library(name="_C_NEWER", module="_C", isa=(), cpuinfo="newer"))
    request = replace(request_, target=TARGET.model_copy(update={"libraries": libraries}))
    collect(request, built(request, tmp_path, "_C", "spinloop"), tmp_path / "kept", tmp_path / "log")
    assert kept(tmp_path) == {
        "vllm/_C.abi3.so": "_C of work\n",
        "vllm/_C_NEWER.abi3.so": "_C of _C_NEWER\n",
        "vllm/spinloop.abi3.so": "spinloop of work\n",
    }


def test_a_library_that_upstream_does_not_define_is_named(request_: KernelRequest, tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="upstream's CMake defines no _C_AVX2 for target x86"):
        collect(request_, built(request_, tmp_path, "_C"), tmp_path / "kept", tmp_path / "log")


def test_what_reports_name_lines_by_is_kept(request_: KernelRequest, tmp_path: Path) -> None:
    request = replace(request_, sanitize="address", toolchain=toolchain())  # whose programs are not there
    collect(request, built(request, tmp_path, "_C", "_C_AVX2"), tmp_path / "kept", tmp_path / "log")
    assert kept(tmp_path)["vllm/_C.abi3.so"] == "_C of work and debug symbols\n"
    assert (tmp_path / "kept/vllm/_C.abi3.so").stat().st_mode & 0o777 == 0o755


def test_debug_symbols_are_separate_and_the_module_names_them(request_: KernelRequest, tmp_path: Path) -> None:
    request = replace(request_, debug_symbols=True)
    spaces = built(request, tmp_path, "_C", "_C_AVX2", libraries=("cpuwheels_dnnl",))
    collect(request, spaces, tmp_path / "kept", tmp_path / "log")
    found = kept(tmp_path)
    debug = tmp_path / "kept" / "debug"
    for name, place in {"_C.abi3.so": "vllm", "_C_AVX2.abi3.so": "vllm", "libcpuwheels_dnnl.so": "libraries"}.items():
        assert found[f"debug/{name}.debug"] == f"debug symbols of {spaces[0].build / name}\n"
        assert found[f"{place}/{name}"].endswith(f"\nsee {debug / name}.debug\n")


def test_a_signed_module_is_kept_as_it_is(request_: KernelRequest, tmp_path: Path) -> None:
    target = TARGET.model_copy(update={"system": "Darwin", "libraries": (Library(name="_C", isa=()),)})
    request = replace(request_, target=target, toolchain=toolchain())  # whose programs are not there
    collect(request, built(request, tmp_path, "_C"), tmp_path / "kept", tmp_path / "log")
    assert kept(tmp_path) == {"vllm/_C.abi3.so": "_C of work and debug symbols\n"}
    assert (tmp_path / "kept/vllm/_C.abi3.so").stat().st_mode & 0o777 == 0o755


def test_what_cannot_be_stripped_is_an_error(request_: KernelRequest, tmp_path: Path) -> None:
    request_.toolchain.strip.write_text("#!/bin/sh\necho no\nexit 1\n")
    spaces = built(request_, tmp_path, "_C", "_C_AVX2")
    with pytest.raises(CommandError, match="strip failed with status 1") as raised:
        collect(request_, spaces, tmp_path / "kept", tmp_path / "log")
    assert shlex.quote(str(spaces[0].module("_C"))) in raised.value.where


@pytest.mark.parametrize("name", ["_C.abi3.so", "libcpuwheels_dnnl.so", "jobs.jsonl"])
@pytest.mark.parametrize("how", ["link", "pipe"])
def test_what_is_no_regular_file_is_refused(request_: KernelRequest, tmp_path: Path, name: str, how: str) -> None:
    spaces = built(request_, tmp_path, "_C", "_C_AVX2", libraries=("cpuwheels_dnnl",))
    spaces[0].ledger.write_text("a job\n")
    path = spaces[0].ledger if name == "jobs.jsonl" else spaces[0].build / name
    path.unlink()
    if how == "link":
        (tmp_path / "secret").write_text("secret")
        path.symlink_to(tmp_path / "secret")
    else:
        os.mkfifo(path)
    with pytest.raises(CompileError, match="left something that is not taken over"):
        collect(request_, spaces, tmp_path / "kept", tmp_path / "log")
    assert "secret" not in kept(tmp_path).values()
