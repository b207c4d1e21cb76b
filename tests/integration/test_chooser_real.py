"""A chooser and its libraries, compiled by the real toolchain and loaded by a real Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from elftools.elf.elffile import ELFFile

from contexts import build_context
from cpuwheels.audit.linux import check_floor
from cpuwheels.config.matrix import Library, Target, load_matrix
from cpuwheels.config.platform_policy import load_policy
from cpuwheels.core.elf import read_elf
from cpuwheels.doctor.runtime.chooser_table import read_table
from cpuwheels.kernels.isa_dispatch import build_chooser
from cpuwheels.verification.load.loader import Loader, Module
from extension import compile_extension
from layout import ROOT

if TYPE_CHECKING:
    from cpuwheels.environment.sealed_env import Environment
    from cpuwheels.toolchain.result import Toolchain


# Says on loading which library it is, as torch's operators are registered on loading.
SOURCE = """
#include <stdio.h>
#ifdef NEEDS
extern int torch_is_there(void);
int use(void) { return torch_is_there(); }
#endif
__attribute__((constructor)) static void loaded(void) { puts("loaded " NAME); fflush(stdout); }
"""

# What upstream's libraries do: operators that register themselves, and the symbol that the chooser has as well.
TORCH_SOURCE = """
#include <torch/library.h>
TORCH_LIBRARY(chooser_test, library) { library.def("one() -> int", [] { return int64_t(1); }); }
extern "C" __attribute__((visibility("default"))) void* PyInit__C() { return nullptr; }
"""

ASK = "import _C; print(_C.__isa__); print([(name, runs) for name, needs, runs in _C.__isas__])"


@dataclass(frozen=True)
class Package:
    """A folder with a chooser and its libraries."""

    folder: Path

    def python(self, code: str, choice: str | None = None, folder: Path | None = None) -> tuple[int, list[str]]:
        """Run code with the folder on Python's path; the status and the lines that were said."""
        env = {"PYTHONPATH": str(folder or self.folder), "PATH": os.environ["PATH"]}
        env |= {} if choice is None else {"CPUWHEELS_ISA": choice}
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=env,
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return done.returncode, done.stdout.splitlines()

    def without(self, name: str, folder: Path) -> Path:
        """Return a copy that lacks one file."""
        shutil.copytree(self.folder, folder)
        (folder / f"{name}.abi3.so").unlink()
        return folder


@pytest.fixture(scope="module")
def target() -> Target:
    libraries = (
        Library(name="_C_NEVER", isa=(), needs=("avx2", "no_such_feature")),
        Library(name="_C_AVX2", isa=(), needs=("sse2", "avx2")),
        Library(name="_C_SSE2", isa=(), needs=("sse2",)),
    )
    x86 = load_matrix(ROOT).target("x86")
    return x86.model_copy(update={"libraries": libraries, "chooser": "_C", "baseline": "x86-64"})


@pytest.fixture(scope="module")
def chooser(target: Target, toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("store")
    return build_chooser(build_context(base, target), toolchain)


@pytest.fixture(scope="module")
def package(chooser: Path, toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Package:
    folder = tmp_path_factory.mktemp("package with blanks é")
    shutil.copyfile(chooser, folder / chooser.name)
    for name in ("_C_AVX2", "_C_SSE2"):
        source = folder / "library.c"
        source.write_text(SOURCE)
        options = ["-shared", "-fPIC", f'-DNAME="{name}"', *(["-DNEEDS"] if name == "_C_SSE2" else [])]
        flags = [*toolchain.compile_flags, *toolchain.link_flags]
        subprocess.run(
            [toolchain.cc, *flags, *options, source, "-Wl,-z,lazy", "-o", folder / f"{name}.abi3.so"], check=True
        )
    return Package(folder)


@pytest.fixture(scope="module")
def torch_package(
    chooser: Path, toolchain: Toolchain, environment: Environment, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("torch-package")
    shutil.copyfile(chooser, folder / chooser.name)
    (folder / "library.cpp").write_text(TORCH_SOURCE)
    compile_extension(environment, toolchain, folder / "library.cpp", folder / "_C_AVX2.abi3.so")
    return folder


def test_the_operators_are_those_of_the_library(torch_package: Path, environment: Environment, tmp_path: Path) -> None:
    path = torch_package / "_C.abi3.so"
    with Loader(lambda: environment.python, tmp_path / "work", tmp_path / "log") as loader:
        loader.python()
        loaded = loader.load([Module("module", path)])[path]
    assert loaded.operators == (("chooser_test::one", "chooser_test::one() -> int"),)


def test_torch_is_asked_for_if_its_libraries_are_missing(torch_package: Path) -> None:
    status, said = Package(torch_package).python(ASK)
    assert status == 1
    assert said[-1].startswith("ImportError: _C_AVX2 cannot be loaded: libtorch_cpu.so: cannot open shared object")
    assert said[-1].endswith("(import torch first: its libraries are needed)")


def test_the_first_that_runs_is_loaded_once(package: Package) -> None:
    twice = f"{ASK}; import sys; del sys.modules['_C']; import _C"
    status, said = package.python(twice)
    assert (status, said) == (
        0,
        ["loaded _C_AVX2", "_C_AVX2", "[('_C_NEVER', False), ('_C_AVX2', True), ('_C_SSE2', True)]"],
    )


def test_in_a_second_interpreter(package: Package) -> None:
    module = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    code = f"import {module} as other, _C; other.run_string(other.create(), 'import _C; print(_C.__isa__, flush=True)')"
    assert package.python(code) == (0, ["loaded _C_AVX2", "_C_AVX2"])


def test_needs_are_told(package: Package) -> None:
    assert package.python("import _C; print(dict((n, needs) for n, needs, _ in _C.__isas__)['_C_NEVER'])") == (
        0,
        ["loaded _C_AVX2", "('avx2', 'no_such_feature')"],
    )


def test_the_table_can_be_read_without_loading(package: Package, target: Target) -> None:
    with (package.folder / "_C.abi3.so").open("rb") as stream:
        found = read_table(stream, "_C")
    assert [(one.name, one.needs) for one in found] == [(one.name, one.needs) for one in target.libraries]


def test_all_symbols_are_looked_for_on_loading(package: Package) -> None:
    """Also those that a library was linked to look for later; and what was not imported is named."""
    status, said = package.python(ASK, choice="sse2")
    assert status == 1
    assert said[-1].startswith("ImportError: _C_SSE2 cannot be loaded: ")
    assert "undefined symbol: torch_is_there" in said[-1]
    assert said[-1].endswith("(import torch first: its libraries are needed)")


def test_what_was_imported_is_not_asked_for(package: Package) -> None:
    _, said = package.python(f"import sys; sys.modules['torch'] = sys; {ASK}", choice="sse2")
    assert said[-1].endswith("torch_is_there")


@pytest.mark.parametrize("choice", ["AVX2", "avx2", "_C_AVX2", ""])
def test_forced(package: Package, choice: str) -> None:
    assert package.python(ASK, choice)[1][:2] == ["loaded _C_AVX2", "_C_AVX2"]


@pytest.mark.parametrize(
    ("choice", "why"),
    [("never", "cannot run that library; it has: "), ("neon", "CPUWHEELS_ISA=neon: this wheel has no such library")],
)
def test_forced_in_vain(package: Package, choice: str, why: str) -> None:
    status, said = package.python("import _C", choice)
    assert status == 1
    assert said[-1].startswith("ImportError: ")
    assert why in said[-1]
    assert said[-1].endswith(
        "it has: NEVER (needs no_such_feature, which this CPU lacks), AVX2 (runs here), SSE2 (runs here)"
    )


def test_the_error_is_one_that_upstream_can_show(package: Package) -> None:
    """Upstream logs the error's text and goes on; it also reads ``msg``."""
    code = "try:\n import _C\nexcept ImportError as e:\n print(e.name, e.msg == str(e), '\\n' in e.msg, ascii(e)[:11])"
    assert package.python(code, "n\u00e9on") == (0, ["_C True False ImportError"])


def test_bytes_that_are_no_text(package: Package) -> None:
    code = (
        "import os\nos.environb[b'CPUWHEELS_ISA'] = b'\\xff'\n"
        "try:\n import _C\nexcept ImportError as e:\n print(ascii(e.msg[:17]))"
    )
    assert package.python(code) == (0, ["'CPUWHEELS_ISA=\\udcff: '"])


def test_a_library_that_is_not_there(package: Package, tmp_path: Path) -> None:
    folder = package.without("_C_AVX2", tmp_path / "less")
    status, said = package.python(ASK, folder=folder)
    assert status == 1
    assert f"_C_AVX2 cannot be loaded: {folder}/_C_AVX2.abi3.so: cannot open shared object file" in said[-1]


def test_found_beside_itself_wherever_python_is_started(package: Package) -> None:
    code = f"import os; os.chdir({str(package.folder)!r}); import sys; sys.path.insert(0, ''); {ASK}"
    assert package.python(code, folder=Path("/nonexistent"))[1][0] == "loaded _C_AVX2"


def test_it_needs_the_c_library_alone(chooser: Path, target: Target) -> None:
    with chooser.open("rb") as stream:
        facts = read_elf(stream)
    assert {*facts.needed} <= {"libc.so.6", "libdl.so.2"}
    check_floor({chooser.name: facts}, load_policy(target.floor, target.machine), where=chooser)


def test_it_exports_nothing_else_and_is_stripped(chooser: Path) -> None:
    with chooser.open("rb") as stream:
        elf = ELFFile(stream)
        symbols = elf.get_section_by_name(".dynsym").iter_symbols()
        defined = [one.name for one in symbols if one.name and one["st_shndx"] != "SHN_UNDEF"]
        names = {section.name for section in elf.iter_sections()}
    assert defined == ["PyInit__C"]
    assert not {".symtab", ".debug_info"} & names


def test_the_same_bytes_from_other_folders(chooser: Path, target: Target, toolchain: Toolchain, tmp_path: Path) -> None:
    root = tmp_path / "another project"
    shutil.copytree(ROOT / "csrc", root / "csrc")
    again = build_chooser(build_context(tmp_path, target, root=root), toolchain)
    assert again != chooser
    assert again.read_bytes() == chooser.read_bytes()


def test_warnings_are_errors_here(target: Target, toolchain: Toolchain, tmp_path: Path) -> None:
    strict = tmp_path / "cc"
    strict.write_text(f'#!/bin/sh\nexec {toolchain.cc} "$@" -Werror -Wconversion -Wshadow\n')
    strict.chmod(0o755)
    build_chooser(build_context(tmp_path, target), replace(toolchain, cc=strict))
