"""Small Mach-O files made by the real zig: what the audit lets through, what it refuses, and that they repeat."""

from __future__ import annotations

import subprocess
import zipfile
from typing import TYPE_CHECKING

import pytest
from tiny_project import PROJECT

from cpuwheels.errors import AuditError
from cpuwheels.macho import read_macho
from cpuwheels.model.matrix import load_matrix
from cpuwheels.toolchain.macos import macos_toolchain
from cpuwheels.wheel.audited import AuditPolicy
from cpuwheels.wheel.macos_audit import audit_macos_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.run import Run
    from cpuwheels.toolchain.result import Toolchain

pytestmark = pytest.mark.slow

TORCH = 'extern "C" __attribute__((visibility("default"))) const char *torch_name(void) { return "torch"; }\n'
MODULE = """\
#include <string>
#include <unordered_map>
extern "C" const char *torch_name(void);
extern "C" void *PyInit_module(void);
extern "C" void *PyModule_Create2(void *, int);
extern "C" __attribute__((visibility("default"))) void *PyInit__C(void) {
  std::unordered_map<std::string, int> sizes{{torch_name(), 1}};
  return sizes.empty() ? nullptr : PyModule_Create2(nullptr, 3);
}
"""
# What torch takes from the C++ library is all that is known of it.
RELIES = MODULE.replace("PyInit__C", "relies").replace("PyModule_Create2(nullptr, 3)", "nullptr")
SMUGGLED = 'extern "C" int smuggled(void);\nint taken = smuggled();\n'


@pytest.fixture(scope="module")
def zig(this: Run) -> Toolchain:
    """The target's toolchain on this machine."""
    return macos_toolchain(
        load_matrix(PROJECT).target("macos"), root=PROJECT, mirrors=this.matrix.debian.mirrors, store=this.store,
        reporter=this.reporter, logs=this.logs, environ={},
    )  # fmt: skip


def build(zig: Toolchain, folder: Path, name: str, source: str, *extra: str | Path) -> Path:
    """Compile and link a source in a folder of its own, as CMake does it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a.cpp").write_text(source)
    maps = f"-ffile-prefix-map={folder}=/build"
    flags = [*zig.compile_flags, *zig.cxx_flags, maps, "-march=armv8.2-a+dotprod+fp16", "-O2", "-fvisibility=hidden"]
    subprocess.run([zig.cxx, *flags, "-fPIC", "-c", folder / "a.cpp", "-o", "a.o"], cwd=folder, check=True)
    link = [*zig.compile_flags, *zig.link_flags, "-Xlinker", "-undefined", "-Xlinker", "dynamic_lookup", *extra]
    subprocess.run([zig.cxx, *link, "-bundle", "a.o", "-o", name], cwd=folder, check=True)
    return folder / name


@pytest.fixture(scope="module")
def torch(zig: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a library that stands in for torch's and vouches for the C++ library's symbols."""
    folder = tmp_path_factory.mktemp("torch")
    stub = folder / "libc++.tbd"
    needed = read_macho(build(zig, folder / "needs", "needs.so", RELIES).read_bytes()).imports
    symbols = ", ".join(f"'{one.name}'" for one in needed if not one.library and one.name != "_torch_name")
    stub.write_text(
        "--- !tapi-tbd\ntbd-version: 4\ntargets: [ arm64-macos ]\ninstall-name: '/usr/lib/libc++.1.dylib'\n"
        f"exports:\n  - targets: [ arm64-macos ]\n    symbols: [ {symbols} ]\n...\n"
    )
    build(zig, folder / "lib", "libtorch.dylib", TORCH + RELIES, stub)
    return folder / "lib"


def wheel_of(module: Path, folder: Path) -> Path:
    wheel = folder / "demo-1.0-cp311-abi3-linux_x86_64.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(module, f"demo/{module.name}")
        archive.writestr("demo-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: cp311-abi3-linux_x86_64\n")
    return wheel


def audit(zig: Toolchain, torch: Path, module: Path, folder: Path):
    terms = AuditPolicy(
        "macosx_14_0", "arm64", ("libtorch.dylib",), torch, zig.library_folders, digests=(), system="Darwin"
    )
    return audit_macos_wheel(wheel_of(module, folder), folder / "out", terms, folder / "log")


def test_a_module_is_let_through_and_tagged(zig, torch, tmp_path):
    module = build(zig, tmp_path / "build", "_C.abi3.so", MODULE)
    audited = audit(zig, torch, module, tmp_path)
    assert audited.platforms == ("macosx_14_0_arm64",)
    assert audited.path.name == "demo-1.0-cp311-abi3-macosx_14_0_arm64.whl"
    with zipfile.ZipFile(audited.path) as archive:
        assert b"Tag: cp311-abi3-macosx_14_0_arm64\n" in archive.read("demo-1.0.dist-info/WHEEL")
    facts = read_macho(module.read_bytes())
    assert facts.minimum_os == (14, 0)
    assert facts.name == "@rpath/_C.abi3.so"
    assert facts.signature_faults == ()


def test_a_smuggled_symbol_is_refused(zig, torch, tmp_path):
    module = build(zig, tmp_path / "build", "_C.abi3.so", MODULE + SMUGGLED)
    with pytest.raises(AuditError, match="1 things are wrong") as raised:
        audit(zig, torch, module, tmp_path)
    assert "_smuggled" in raised.value.output


def test_a_changed_file_is_refused(zig, torch, tmp_path):
    module = build(zig, tmp_path / "build", "_C.abi3.so", MODULE)
    content = bytearray(module.read_bytes())
    content[0x1000] ^= 1
    module.write_bytes(content)
    with pytest.raises(AuditError) as raised:
        audit(zig, torch, module, tmp_path)
    assert "is not what was signed" in raised.value.output


def test_another_folder_makes_the_same_bytes(zig, tmp_path):
    first, second = (build(zig, tmp_path / name, "_C.abi3.so", MODULE).read_bytes() for name in ("a", "longer/b"))
    assert first == second
