"""Small Mach-O files made by the real zig: what the audit lets through, what it refuses, and that they repeat."""

from __future__ import annotations

import json
import subprocess
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from cpuwheels.audit.binutils import Binutils
from cpuwheels.audit.isa_limits import limits_of
from cpuwheels.audit.macos import audit_macos_wheel
from cpuwheels.audit.policy import AuditPolicy
from cpuwheels.config.matrix import load_matrix
from cpuwheels.core.errors import AuditError
from cpuwheels.core.macho import read_macho
from cpuwheels.toolchain.macos import macos_toolchain
from layout import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.toolchain.result import Toolchain
    from tiny_project import Tiny

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
# A class for everybody whose definition each file makes that uses it: the loader is asked for one that all share.
SHARED = """\
struct __attribute__((visibility("default"))) Shared {
  virtual ~Shared() {}
  virtual int size() const { return 1; }
};
extern "C" __attribute__((visibility("default"))) const Shared *shared(void) { static const Shared one; return &one; }
"""
# What torch takes from the C++ library is all that is known of it.
RELIES = MODULE.replace("PyInit__C", "relies").replace("PyModule_Create2(nullptr, 3)", "nullptr") + SHARED.replace(
    "hared", "cratch"
)
# bfdot v0.2s, v1.4h, v2.4h, which an M1 has not.
NEWER = 'extern "C" __attribute__((visibility("default"))) void newer(void) { asm volatile(".inst 0x2e42fc20"); }\n'
SMUGGLED = 'extern "C" int smuggled(void);\nint taken = smuggled();\n'


@pytest.fixture(scope="module")
def zig(this: BuildContext) -> Toolchain:
    """The target's toolchain on this machine."""
    return macos_toolchain(replace(this, target=this.matrix.target("macos")), {})


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
        "macosx_14_0",
        "arm64",
        ("libtorch.dylib",),
        torch,
        zig.library_folders,
        digests=(),
        limits=limits_of(load_matrix(ROOT).target("macos")),
        binutils=Binutils.of(zig),
        system="Darwin",
    )
    return audit_macos_wheel(wheel_of(module, folder), folder / "out", terms, folder / "log")


def test_a_module_is_let_through_and_tagged(zig, torch, tmp_path):
    module = build(zig, tmp_path / "build", "_C.abi3.so", MODULE)
    audited = audit(zig, torch, module, tmp_path)
    assert audited.platforms == ("macosx_14_0_arm64",)
    (judged,) = audited.instructions
    assert (judged.march, judged.unjudged) == ("armv8.2-a+dotprod+fp16", ())
    assert judged.forms > 10
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


def test_an_instruction_of_newer_macs_is_refused(zig, torch, tmp_path):
    module = build(zig, tmp_path / "build", "_C.abi3.so", MODULE + NEWER)
    with pytest.raises(AuditError, match="instructions beyond") as raised:
        audit(zig, torch, module, tmp_path)
    assert "bfdot v0.2s, v1.4h, v2.4h (not in armv8.2-a+dotprod+fp16)" in raised.value.output


def test_a_definition_that_nobody_else_shares_is_there(zig, torch, tmp_path):
    """Such as the table of an inline class's virtual functions, which zig's linker hides and asks for all the same."""
    module = build(zig, tmp_path / "build", "_C.abi3.so", MODULE + SHARED)
    assert b"__ZTV6Shared" in module.read_bytes()
    assert audit(zig, torch, module, tmp_path).path.is_file()


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


def test_a_wheel_for_a_mac_by_the_whole_pipeline(tiny: Tiny) -> None:
    """Cross-compiled, linked and judged; nothing here can run it, and the record says so."""
    wheel = tiny.build(target="macos")
    assert wheel.name == "vllm-0.1.0+cpu-cp38-abi3-macosx_14_0_arm64.whl"
    with zipfile.ZipFile(wheel) as archive:
        modules = {name: read_macho(archive.read(name)) for name in archive.namelist() if name.endswith(".so")}
    assert modules.keys() == {"vllm/_C.abi3.so", "vllm/spinloop.abi3.so"}
    for facts in modules.values():
        assert (facts.machine, facts.minimum_os, facts.signature_faults) == ("arm64", (14, 0), ())
    assert "_PyInit_spinloop" in modules["vllm/spinloop.abi3.so"].exports
    assert "@rpath/libtorch_cpu.dylib" in modules["vllm/_C.abi3.so"].needed
    record = json.loads((wheel.parent / "record.json").read_text())
    assert record["install_check"] == "not run"
    assert record["tried"] == []
