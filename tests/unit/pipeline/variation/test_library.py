"""The library of a second build: compiled once, tried, and refused with a reason."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from contexts import build_context
from cpuwheels.core.errors import ToolchainError
from cpuwheels.pipeline.variation import library as module
from cpuwheels.pipeline.variation.circumstances import NotVariedError
from cpuwheels.pipeline.variation.library import vary_library

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it is Linux's")


@pytest.fixture
def compiler(c_compiler: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    found = SimpleNamespace(cc=c_compiler, compile_flags=(), link_flags=(), digest="d")
    monkeypatch.setattr(module, "resolve_toolchain", lambda _: found)
    return found


def test_it_is_compiled_once(tmp_path: Path, compiler: SimpleNamespace) -> None:
    context = build_context(tmp_path)
    library = vary_library(context)
    assert library.read_bytes()[:4] == b"\x7fELF"
    compiler.cc = Path("/nonexistent/cc")
    assert vary_library(context) == library


def test_a_compiler_that_cannot_do_it(tmp_path: Path, compiler: SimpleNamespace) -> None:
    compiler.compile_flags = ("-include", "nothing-of-this-name.h")
    with pytest.raises(NotVariedError, match=r"cannot be compiled here: .*vary\.log"):
        vary_library(build_context(tmp_path))


@pytest.mark.usefixtures("compiler")
def test_one_that_programs_do_not_load(tmp_path: Path, compiler: SimpleNamespace) -> None:
    compiler.link_flags = ("-Wl,--no-as-needed", f"-L{tmp_path}", "-lgone")
    (tmp_path / "gone.c").write_text("")
    module.run([compiler.cc, "-shared", "-o", tmp_path / "libgone.so", tmp_path / "gone.c"], log=tmp_path / "log")
    with pytest.raises(NotVariedError, match=r"programs do not load the library .*libgone\.so"):
        vary_library(build_context(tmp_path))


def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: object) -> None:
        raise ToolchainError("no compiler of this machine can build x86")

    monkeypatch.setattr(module, "resolve_toolchain", none)
    with pytest.raises(NotVariedError, match="there is no compiler for the library that it takes: no compiler of"):
        vary_library(build_context(tmp_path))


@pytest.mark.usefixtures("compiler")
def test_a_path_that_cannot_be_preloaded(tmp_path: Path) -> None:
    with pytest.raises(NotVariedError, match="no path with a blank or a colon"):
        vary_library(build_context(tmp_path / "a b"))
