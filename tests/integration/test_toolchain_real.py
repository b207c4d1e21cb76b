"""The pinned compiler and sysroot for real: fetched, unpacked, and used for a library under the floor."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from contexts import build_context
from cpp_program import SOURCE, loose_symbols, needed_versions
from cpuwheels.config.matrix import CompilerRequirements, Library, Target
from cpuwheels.config.options import BuildOptions
from cpuwheels.core.console import Reporter
from cpuwheels.core.store import Store, default_root
from cpuwheels.toolchain.select import resolve_toolchain

if TYPE_CHECKING:
    from cpuwheels.toolchain.result import Toolchain


FLOOR = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11), "GCC": (7, 0, 0)}
"""manylinux_2_28 as PEP 600 and auditwheel's table have it, written out so that both are checked."""


PROGRAM = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
assert library.sum_below(1000) == 499500
assert library.caught() == 5, library.caught()
assert library.says_hello() == 3
library.newer_math.restype, library.newer_math.argtypes = ctypes.c_double, [ctypes.c_double]
assert library.newer_math(4.0) == 34.0
assert 29 <= library.waited() < 5000
"""


@pytest.fixture(scope="module")
def toolchain(tmp_path_factory: pytest.TempPathFactory) -> Toolchain:
    target = Target(
        id="x86",
        description="x86-64",
        status="ready",
        system="Linux",
        machine="x86_64",
        floor="manylinux_2_28",
        compiler=CompilerRequirements(family="GNU", minimum="12.3", commands=("g++",)),
        toolchain="gcc-15-amd64",
        sysroot="sysroot-bullseye-amd64",
        libraries=(Library(name="_C", isa=("avx2",)),),
        worst_peak=1 << 30,
        worst_peak_debug=1 << 30,
    )
    return resolve_toolchain(
        build_context(
            tmp_path_factory.mktemp("logs"),
            target,
            options=BuildOptions(toolchain="debian"),
            store=Store(default_root()),
            reporter=Reporter("x86"),
            mirrors=("http://deb.debian.org/debian",),
        )
    )


@pytest.fixture(scope="module")
def library(toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    (folder / "small.cpp").write_text(SOURCE)
    includes = [f"-I{path}" for path in toolchain.python_include]
    maps = [f"-ffile-prefix-map={path}={name}" for path, name in toolchain.prefix_maps]
    compile_all = [toolchain.cxx, *toolchain.compile_flags, *toolchain.cxx_flags, *maps, *includes]
    # Another folder and an empty environment: nothing may depend on where or how the build is started.
    env = {"PATH": "/usr/bin:/bin"}
    command = [*compile_all, "-std=c++20", "-O2", "-fPIC", "-fopenmp", "-c", "small.cpp"]
    subprocess.run(command, cwd=folder, env=env, check=True)
    link = [toolchain.cxx, *toolchain.compile_flags, *toolchain.link_flags, "-shared", "-fopenmp", "small.o"]
    command = [*link, "-o", "small.so", "-lnuma", *toolchain.cxx_libraries]
    subprocess.run(command, cwd=folder, env=env, check=True)
    return folder / "small.so"


@pytest.mark.slow
def test_nothing_above_the_floor_is_needed(library: Path) -> None:
    seen = set()
    for version in needed_versions(library):
        family, _, number = version.partition("_")
        if family in FLOOR and re.fullmatch(r"[\d.]+", number):
            seen.add(family)
            assert tuple(map(int, number.split("."))) <= FLOOR[family], version
    assert seen == set(FLOOR)


@pytest.mark.slow
def test_nothing_is_left_to_be_found_without_a_version(library: Path) -> None:
    """Such a symbol passes every check of versions and fails on a machine whose C library is as old as allowed."""
    assert loose_symbols(library) == []


@pytest.mark.slow
def test_the_library_works_in_this_python(library: Path, toolchain: Toolchain) -> None:
    env = {"LD_LIBRARY_PATH": str(_runtime(library.parent, toolchain))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, library], capture_output=True, text=True, env=env, check=False
    )
    assert (done.returncode, done.stdout) == (0, "hello 1.5 1\n"), done.stderr


def _runtime(folder: Path, toolchain: Toolchain) -> Path:
    """Lay out what comes with torch or is installed on a user's machine, without the sysroot's C library."""
    runtime = folder / "runtime"
    runtime.mkdir()
    for name in ("libnuma.so.1", "libgomp.so.1"):
        found = next(place / name for place in toolchain.library_folders if (place / name).exists())
        (runtime / name).symlink_to(found)
    return runtime


@pytest.mark.slow
def test_no_path_of_the_store_is_in_the_library(library: Path) -> None:
    assert str(default_root()).encode() not in library.read_bytes()


@pytest.mark.slow
def test_the_compiler_runs_its_own_tools(toolchain: Toolchain) -> None:
    for name in ("as", "ld", "cc1plus"):
        asked = [toolchain.cxx, *toolchain.compile_flags, f"-print-prog-name={name}"]
        answer = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
        assert Path(answer).resolve().is_relative_to(toolchain.cxx.parents[2])
    assert toolchain.kind == "debian"
    assert toolchain.version.startswith("15.")
