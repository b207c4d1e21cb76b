"""Settings of a CMake build: read back by a real CMake where that is possible, else as CMake would."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from cpuwheels.kernels.cmake_cache import KERNEL_EPOCH, build_variables, cache_text, toolchain_text
from cpuwheels.kernels.launchers import Launchers
from kernel_request import environment, toolchain

ODD = 'a "b" ${c} \\d;e ]] ]=]'


def values(text: str) -> dict[str, str]:
    found = re.findall(r"^set\((\w+) \[==\[(.*)\]==\](?: CACHE STRING \"\")?\)$", text, re.MULTILINE)
    assert len(found) == text.count("\n")
    return dict(found)


def test_values_are_taken_as_they_are() -> None:
    assert values(cache_text({"ONE": ODD, "TWO": ""})) == {"ONE": ODD, "TWO": ""}
    assert cache_text({"ONE": "x"}).endswith('CACHE STRING "")\n')


def test_flags_are_quoted_for_the_shell() -> None:
    made = toolchain(compile_flags=("-I/a b", "-Dx=$y"), link_flags=("-L/c d",))
    found = values(toolchain_text(made, {}, Path("/build"), link_flags=["-fuse-ld=/e f"]))
    assert shlex.split(found["CPUWHEELS_COMPILE_FLAGS"]) == ["-I/a b", "-Dx=$y"]
    assert shlex.split(found["CPUWHEELS_LINK_FLAGS"]) == ["-fuse-ld=/e f", "-L/c d"]
    assert (found["CPUWHEELS_CXX"], found["CPUWHEELS_SYSROOT"]) == ("/tc/g++", "/sysroot")
    assert values(toolchain_text(toolchain(sysroot=None), {}, Path("/build")))["CPUWHEELS_SYSROOT"] == ""


def test_folders_have_their_stable_names_also_from_the_build_folder_on() -> None:
    maps = {Path("/work/source"): "/usr/src/cpuwheels/source", Path("/work/build"): "/usr/src/cpuwheels/build"}
    found = values(toolchain_text(toolchain(), maps, Path("/work/build")))
    assert [shlex.split(part)[0] for part in found["CPUWHEELS_PREFIX_MAPS"].split(";")] == [
        "/work/source=/usr/src/cpuwheels/source",
        "/work/build=/usr/src/cpuwheels/build",
        "/tc=/usr/src/tc",
        "../source=/usr/src/cpuwheels/source",
        "../../tc=/usr/src/tc",
    ]


def test_nothing_of_the_callers_settings_reaches_a_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CXXFLAGS", "-O0")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "7")
    launchers = Launchers(compiler=("memgate",), linker=(), environment={"LAUNCHED": "1"})
    found = build_variables(environment(), tmp_path, tmp_path / "values.cmake", {"MORE": "2"}, launchers)
    assert "CXXFLAGS" not in found
    assert found["SOURCE_DATE_EPOCH"] == KERNEL_EPOCH
    assert (found["LAUNCHED"], found["MORE"], found["GIT_CEILING_DIRECTORIES"]) == ("1", "2", str(tmp_path))
    assert found["CPUWHEELS_TOOLCHAIN_VALUES"] == str(tmp_path / "values.cmake")
    assert found["PATH"].split(":")[0] == "/env/bin"
