"""The programs that start zig: what they hand on."""

import os
import subprocess
from pathlib import Path

import pytest

from cpuwheels.toolchain.zig_wrappers import PACKAGES, programs


@pytest.fixture
def entry(tmp_path):
    """A store's entry with the programs and a zig that only says how it was started."""
    folder = tmp_path / "store" / "toolchains" / "key"
    zig = folder / PACKAGES / "ziglang" / "zig"
    zig.parent.mkdir(parents=True)
    zig.write_text('#!/bin/sh\nprintf "%s\\n" "$ZIG_GLOBAL_CACHE_DIR" "$ZIG_LOCAL_CACHE_DIR" "$@"\n')
    zig.chmod(0o755)
    (folder / "bin").mkdir()
    for name, text in programs().items():
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    return folder


def start(program: Path, *arguments: str) -> list[str]:
    done = subprocess.run(
        [program, *arguments], capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]}
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("given", "handed_on"),
    [
        (["-O2", "a file.cpp", ""], ["-O2", "a file.cpp", ""]),
        (["-march=armv8.2-a+dotprod+fp16"], ["-mcpu=generic+v8_2a+dotprod+fullfp16"]),
        (["-march=armv8.2-a+bf16+fp16+i8mm"], ["-mcpu=generic+v8_2a+bf16+fullfp16+i8mm"]),
        (["-march=armv9-a"], ["-mcpu=generic+v9a"]),
        (["-march=native"], ["-march=native"]),
        (
            ["-bundle", "-o", "out/_C.abi3.so", "a.o"],
            ["-shared", "-o", "out/_C.abi3.so", "a.o", "-Wl,-install_name,@rpath/_C.abi3.so"],
        ),
        (["-o", "-bundle"], ["-o", "-bundle"]),
        (["-c", "x.cpp", "-o", "x.o"], ["-c", "x.cpp", "-o", "x.o"]),
    ],
)
def test_arguments_are_translated(entry, given, handed_on):
    assert start(entry / "bin" / "c++", *given)[2:] == ["c++", *handed_on]
    assert start(entry / "bin" / "cc", *given)[2:] == ["cc", *handed_on]


def test_archives_are_zigs_own_command(entry):
    assert start(entry / "bin" / "ar", "qc", "x.a")[2:] == ["ar", "qc", "x.a"]
    assert start(entry / "bin" / "ranlib", "x.a")[2:] == ["ranlib", "x.a"]


def test_caches_lie_with_the_stores_unfinished_work(entry, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    cache = str(tmp_path.resolve() / "store" / "work" / "zig")
    assert start(entry / "bin" / "c++", "-v")[:2] == [cache, cache]


@pytest.mark.parametrize("name", ["strip", "objcopy", "objdump", "as"])
def test_what_zig_has_not_fails(entry, name):
    done = subprocess.run([entry / "bin" / name, "x"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "linking alone" in done.stderr
