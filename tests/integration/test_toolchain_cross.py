"""The pinned cross compilers for real: each makes a library for its target that stays under the target's floor."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from contexts import build_context
from cpp_program import SOURCE, loose_symbols, needed_versions
from cpuwheels.config.host import is_foreign
from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.platform_policy import load_policy
from cpuwheels.core.console import Reporter
from cpuwheels.core.store import Store, default_root
from cpuwheels.toolchain.select import resolve_toolchain
from layout import ROOT

MATRIX = load_matrix(ROOT)
MACHINES = {"aarch64": "EM_AARCH64", "s390x": "EM_S390"}
CROSS = [target for target in MATRIX.targets if target.machine in MACHINES and target.sysroot]

# What upstream's kernels use besides, and what was not in the C library itself before glibc 2.34.
SHARED_MEMORY = """
#include <fcntl.h>
#include <sys/mman.h>

extern "C" int shared() { return shm_open("/x", O_RDWR, 0600) + shm_unlink("/x"); }
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the cross compilers run on x86-64")
@pytest.mark.parametrize("target", CROSS, ids=lambda target: target.id)
def test_a_library_for_another_machine(target, tmp_path: Path) -> None:
    assert is_foreign(target)
    options, store = BuildOptions(toolchain="debian"), Store(default_root())
    toolchain = resolve_toolchain(
        build_context(tmp_path, target, options=options, store=store, reporter=Reporter(target.id))
    )
    (tmp_path / "small.cpp").write_text(SOURCE + SHARED_MEMORY)
    includes = [f"-I{path}" for path in toolchain.python_include]
    maps = [f"-ffile-prefix-map={path}={name}" for path, name in toolchain.prefix_maps]
    env = {"PATH": "/usr/bin:/bin"}
    common = [toolchain.cxx, *toolchain.compile_flags]
    command = [*common, *toolchain.cxx_flags, *maps, *includes, "-std=c++20", "-O2", "-fPIC", "-fopenmp", "-c"]
    subprocess.run([*command, "small.cpp"], cwd=tmp_path, env=env, check=True)
    # An executable would need the same; -z defs refuses what no library of the sysroot offers.
    command = [*common, *toolchain.link_flags, "-shared", "-Wl,-z,defs", "-fopenmp", "small.o", "-o", "small.so"]
    subprocess.run([*command, "-lnuma", *toolchain.cxx_libraries], cwd=tmp_path, env=env, check=True)
    library = tmp_path / "small.so"
    policy = load_policy(target.floor, target.machine)
    assert [version for version in needed_versions(library) if policy.forbids(version)] == []
    assert loose_symbols(library) == []
    assert str(default_root()).encode() not in library.read_bytes()
    with library.open("rb") as stream:
        assert ELFFile(stream)["e_machine"] == MACHINES[target.machine]
    for name in ("as", "ld", "cc1plus"):
        asked = [*common, f"-print-prog-name={name}"]
        answer = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
        assert Path(answer).resolve().is_relative_to(toolchain.cxx.parents[2])
