"""The script that torch.compile calls as its compiler."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from contexts import build_context
from cpuwheels.sandbox.confine import unconfined
from cpuwheels.verification.serving import compiler
from cpuwheels.verification.serving.compiler import compiler_variables, lacking_headers


def test_the_compilers_flags_come_first_and_its_libraries_last_where_it_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "real g++"
    program.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    program.chmod(0o755)
    chain = SimpleNamespace(
        cxx=program,
        compile_flags=("--sysroot=/a b",),
        cxx_flags=("-nostdinc++",),
        link_flags=("-L/x",),
        cxx_libraries=("-lcompat",),
        description="GNU 14, unpacked",
    )
    monkeypatch.setattr(compiler, "toolchain_places", lambda _: [program])
    monkeypatch.setattr(compiler, "resolve_toolchain", lambda _: chain)
    variables, description, places = compiler_variables(build_context(tmp_path), tmp_path / "work")
    assert (description, places) == ("GNU 14, unpacked", (program,))
    for words, link, libraries in (
        (["-shared", "a file.cpp", "-o", "a.so"], "<-L/x>", "<-lcompat>"),
        (["-c", "a file.cpp"], "", ""),
        (["a.h", "-o", "a.h.gch"], "", ""),
    ):
        done = subprocess.run([variables["CXX"], *words], capture_output=True, text=True, check=True)
        given = "".join(f"<{word}>" for word in words)
        assert done.stdout == f"<--sysroot=/a b><-nostdinc++>{link}{given}{libraries}"


def test_a_python_without_headers_is_told(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho {tmp_path}\n")
    python.chmod(0o755)
    assert lacking_headers(python, unconfined) == f"its Python has no headers ({tmp_path}/Python.h)"
    (tmp_path / "Python.h").touch()
    assert lacking_headers(python, unconfined) == ""
