"""What commands of a build may read and write; that they are confined is in tests/integration/test_sandbox.py."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from contexts import build_context
from cpuwheels.core.errors import CompileError
from cpuwheels.kernels.ccache.settings import CompilerCache
from cpuwheels.kernels.confined import confinement, require_files
from cpuwheels.kernels.memory.memgate import GateFolder
from kernel_request import environment, kernel_request, toolchain

if TYPE_CHECKING:
    from cpuwheels.kernels.confined import Confinement
    from cpuwheels.kernels.request import KernelRequest


class Build:
    """Stores with a toolchain, a sysroot and an environment, and a build next to them."""

    def __init__(self, base: Path) -> None:
        self.base, self.store = base, base / "cache"
        for name in (
            "toolchains/gcc/usr/bin/gcc",
            "sysroots/old/usr/include/stdio.h",
            "environments/env/bin/python",
            "environments/env/lib/python3.11/site-packages/torch/version.py",
            "native/helpers/memgate",
            "ccache/program/usr/bin/ccache",
            "compat/library/libcompat.a",
            "kernels/finished/vllm/_C.abi3.so",
        ):
            (self.store / name).parent.mkdir(parents=True, exist_ok=True)
            (self.store / name).write_text("")
        self.work = self.store / "work" / "kernels-1"
        self.work.mkdir(parents=True)
        programs = self.store / "toolchains/gcc/usr/bin"
        tools = dict.fromkeys(("cc", "cxx", "ar", "ranlib", "strip", "objcopy", "objdump"), programs / "gcc")
        sysroot = self.store / "sysroots/old"
        self.toolchain = toolchain(
            **tools,
            assembler=None,
            sysroot=sysroot,
            compile_flags=(f"--sysroot={sysroot}", f"-B{programs}", "-O2"),
            cxx_libraries=(str(self.store / "compat/library/libcompat.a"),),
            prefix_maps=(),
            python_include=(),
        )
        site = self.store / "environments/env/lib/python3.11/site-packages"
        python = self.store / "environments/env/bin/python"
        self.environment = environment(python=python, site_packages=site, torch_folder=site / "torch")

    def request(self) -> KernelRequest:
        return kernel_request(self.base / "request", toolchain=self.toolchain, environment=self.environment)

    def confinement(self, cache: CompilerCache | None = None, **more: list[Path]) -> Confinement:
        context = build_context(self.store, logs=self.base / "logs")
        gate = GateFolder(self.work / "gate", self.store / "native/helpers/memgate")
        return confinement(context, self.request(), self.work, gate, cache, **more)


@pytest.fixture
def build(tmp_path: Path) -> Build:
    return Build(tmp_path)


def test_a_build_reads_its_own_entries_of_the_store_and_no_others(build: Build) -> None:
    made = build.confinement()
    inside = {path.relative_to(build.store).as_posix() for path in made.readable if path.is_relative_to(build.store)}
    assert inside == {"toolchains/gcc", "sysroots/old", "environments/env", "native/helpers", "compat/library"}
    assert build.request().root / "cmake" in made.readable
    assert made.writable == (build.work / "gate",)


def test_the_compiler_cache_is_filled_by_the_compilers(build: Build) -> None:
    cache = CompilerCache(
        build.store / "ccache/program/usr/bin/ccache", build.store, remote=f"file:{build.base}/shared|umask=002"
    )
    made = build.confinement(cache)
    assert build.store / "ccache/program" in made.readable
    assert made.writable == (build.work / "gate", build.store / "compiler-cache", build.base / "shared")
    assert all(path.is_dir() for path in made.writable)


def test_a_link_of_the_build_leads_to_another_entry(build: Build) -> None:
    (build.store / "acl-built/key/build").mkdir(parents=True)
    (build.work / "acl").symlink_to(build.store / "acl-built/key")
    assert build.store / "acl-built/key" in build.confinement(inputs=[build.work / "acl"]).readable


def test_commands_have_zigs_cache_in_their_own_folder(build: Build) -> None:
    confined = build.confinement().command("CMake of x", ["cmake", "-S", "."], {"A": "1"}, [build.base / "events"])
    assert confined.env["CPUWHEELS_ZIG_CACHE"] == f"{build.work}/zig"
    assert confined.env["A"] == "1"
    assert confined.argv[-3:] == ["cmake", "-S", "."]
    plan = json.loads(Path(confined.argv[confined.argv.index("--") - 1]).read_text())
    assert (plan["step"], plan["folder"]) == ("CMake of x", str(build.work))


def test_only_plain_files_are_taken_from_a_build(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    require_files([tmp_path / "plain", tmp_path / "absent"])
    (tmp_path / "link").symlink_to("plain")
    with pytest.raises(CompileError, match="left a link in place of link"):
        require_files([tmp_path / "plain", tmp_path / "link"])
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(CompileError, match="left a special file in place of fifo"):
        require_files([tmp_path / "fifo"])
    (tmp_path / "dangling").symlink_to("/nowhere")
    with pytest.raises(CompileError):
        require_files([tmp_path / "dangling"])
