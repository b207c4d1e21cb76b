"""What zig and Apple's clang are given, and Python's headers without a sysroot."""

from pathlib import Path

import pytest

from contexts import build_context
from cpuwheels.config.platform_policy import macos_floor
from cpuwheels.core.errors import MatrixError, ToolchainError
from cpuwheels.toolchain import zig
from cpuwheels.toolchain.flags import Flags
from cpuwheels.toolchain.macos import apple_flags, macos_toolchain
from cpuwheels.toolchain.probe import Compiler
from cpuwheels.toolchain.python_headers import settle
from cpuwheels.toolchain.requirements import Identity
from cpuwheels.toolchain.zig_wrappers import TOOLS


class FakeTarget:
    id = "macos"
    machine = "arm64"
    system = "Darwin"
    floor = "macosx_14_0"


def test_the_floor_is_in_zigs_name_of_the_target():
    assert zig.triple(FakeTarget()) == "aarch64-macos.14.0"
    assert zig.target_flags(FakeTarget()).compile_flags[:2] == ("-target", "aarch64-macos.14.0")


def test_apples_clang_is_given_the_floor_and_no_build_machine():
    flags = apple_flags(FakeTarget())
    assert flags.compile_flags == ("-arch", "arm64", "-mmacosx-version-min=14.0")
    assert flags.link_flags == ("-Wl,-S", "-Wl,-x")


def test_the_cxx_library_is_not_zigs():
    flags = zig.target_flags(FakeTarget())
    assert "-nostdlib++" in flags.link_flags
    assert "-D_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=1" in flags.cxx_flags


@pytest.mark.parametrize("floor", ["manylinux_2_28", "macosx_14", "macosx_14_0_arm64", ""])
def test_only_a_macos_floor_will_do(floor):
    with pytest.raises(MatrixError, match="which macOS"):
        macos_floor(floor)


def test_a_missing_lock_is_named(tmp_path):
    with pytest.raises(ToolchainError, match=r"zig\.txt"):
        zig.installed_zig(build_context(tmp_path, "macos"), tmp_path / "zig.txt")


def test_the_digest_is_that_of_the_compiler_and_of_pythons_headers(tmp_path, monkeypatch):
    programs = {name: Path(f"/zig/{name}") for name in TOOLS}
    compiler = Compiler(
        Path("/zig/cc"), Path("/zig/c++"), Identity("Clang", "20.0.0", "arm64"), "zig", (), (), None, programs
    )
    context = build_context(tmp_path, "macos")
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr("cpuwheels.toolchain.macos.python_headers", lambda *_: Path("/headers"))
    monkeypatch.setattr("cpuwheels.toolchain.macos._judges", lambda _: {})

    def digest(of_zig, of_headers):
        found = zig.Zig(compiler, Flags(), Path("/zig"), of_zig)
        monkeypatch.setattr(zig, "installed_zig", lambda *_: found)
        monkeypatch.setattr("cpuwheels.toolchain.macos.headers_key", lambda _: of_headers)
        return macos_toolchain(context, {}).digest

    assert digest("one", "one") == digest("one", "one")
    assert len({digest("one", "one"), digest("other", "one"), digest("one", "other")}) == 3


def write(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_machines_pyconfig_takes_the_common_ones_place(tmp_path):
    include = tmp_path / "usr/include"
    write(include / "python3.11/Python.h")
    write(include / "python3.11/pyconfig.h", "# error unknown machine")
    write(include / "aarch64-linux-gnu/python3.11/pyconfig.h", "#define SIZEOF_LONG 8")
    settle(tmp_path)
    assert (include / "python3.11/pyconfig.h").read_text() == "#define SIZEOF_LONG 8"


def test_headers_that_lack_a_part_are_refused(tmp_path):
    with pytest.raises(ToolchainError, match=r"Python\.h"):
        settle(tmp_path)
    write(tmp_path / "usr/include/python3.11/Python.h")
    with pytest.raises(ToolchainError, match=r"pyconfig\.h"):
        settle(tmp_path)
