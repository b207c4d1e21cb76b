"""The library of newer functions: compiled once for a compiler and its flags, and hidden."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.config.context import BuildContext
from cpuwheels.core.errors import ToolchainError
from cpuwheels.toolchain.compat_library import NAME, compat_library, sources
from cpuwheels.toolchain.probe import Compiler
from cpuwheels.toolchain.requirements import Identity

PROGRAM = f"""\
#!{sys.executable}
import json, os, sys
with open({{given!r}}, "a") as stream:
    stream.write(json.dumps([os.path.basename(sys.argv[0]), *sys.argv[1:]]) + "\\n")
for name in sys.argv[1:]:
    if name.endswith(".c"):
        open(name[:-2] + ".o", "w").write(open(name).read())
    elif name.endswith(".o"):
        open(sys.argv[2], "a").write(open(name).read())
"""
"""Stands for a compiler and an archiver, and writes down how it is started."""


@pytest.fixture
def compiler(tmp_path: Path) -> Compiler:
    for name in ("cc", "ar"):
        (tmp_path / name).write_text(PROGRAM.format(given=str(tmp_path / "given")))
        (tmp_path / name).chmod(0o755)
    identity = Identity("GNU", "14.2.0", "x86_64-linux-gnu")
    return Compiler(tmp_path / "cc", tmp_path / "c++", identity, "GNU 14", (), (), None, tools={"ar": tmp_path / "ar"})


def given(compiler: Compiler) -> list[list[str]]:
    lines = compiler.cc.with_name("given").read_text().splitlines()
    found: list[Any] = [json.loads(line) for line in lines]
    return found


def test_every_source_is_compiled_hidden_and_as_the_target_wants_it(context: BuildContext, compiler: Compiler) -> None:
    library = compat_library(context, compiler, ("--sysroot=/s", "-m64"), "inputs")
    names = sorted(sources())
    assert len(names) > 1
    compiled, archived = given(compiler)
    flags = ["--sysroot=/s", "-m64", "-O2", "-fPIC", "-fvisibility=hidden", "-c"]
    assert compiled == ["cc", *flags, *names]
    # D: without the time, the user and the modes of the members.
    assert archived == ["ar", "rcsD", NAME, *(name.replace(".c", ".o") for name in names)]
    assert library.read_text() == "".join(sources()[name] for name in names)
    assert not list(library.parent.glob("*.o"))


def test_it_is_compiled_once_for_a_compiler_and_its_sysroot(context: BuildContext, compiler: Compiler) -> None:
    first = compat_library(context, compiler, (), "inputs")
    assert compat_library(context, compiler, (), "inputs") == first
    assert len(given(compiler)) == 2
    assert compat_library(context, compiler, (), "others") != first
    assert len(given(compiler)) == 4


def test_other_sources_make_another_library(
    context: BuildContext, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = compat_library(context, compiler, (), "inputs")
    changed = sources() | {"more.c": "int more;\n"}
    monkeypatch.setattr("cpuwheels.toolchain.compat_library.sources", lambda: changed)
    assert compat_library(context, compiler, (), "inputs") != first


@pytest.mark.parametrize("program", ["cc", "ar"])
def test_a_compiler_that_cannot_is_named(context: BuildContext, compiler: Compiler, program: str) -> None:
    compiler.cc.with_name(program).write_text("#!/bin/sh\necho 'error: no'\nexit 1\n")
    with pytest.raises(ToolchainError, match=r"GNU 14\.2\.0 could not compile a small C file") as raised:
        compat_library(context, compiler, (), "inputs")
    assert raised.value.output == "error: no"
    assert not list(context.store.root.glob("compat/*"))
