"""Changes to the sources between two builds."""

from __future__ import annotations

from pathlib import Path

import pytest
from buildbench.edit import edit_kernel, edit_python

from cpuwheels.core.errors import UsageError


def test_a_change_is_one_line_and_never_the_same(tmp_path: Path) -> None:
    file = tmp_path / "a.cpp"
    file.write_text("int a;\nint b;\n")
    texts = []
    for _ in range(3):
        edit_kernel(tmp_path, "a.cpp")
        texts.append(file.read_text())
    assert len(set(texts)) == 3
    for text in texts:
        lines = text.splitlines()
        assert lines[:2] == ["int a;", "int b;"]
        assert len(lines) == 3
        assert lines[2].startswith("namespace { [[gnu::used, gnu::retain]] const volatile long long benchmark_edit = ")
        assert text.endswith("}\n")


def test_a_file_without_a_last_newline_keeps_its_last_line(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1")
    edit_python(tmp_path, "a.py")
    assert (tmp_path / "a.py").read_text().splitlines()[0] == "a = 1"
    assert (tmp_path / "a.py").read_text().splitlines()[1].startswith("# benchmark edit ")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no csrc/x\.cpp to change"):
        edit_kernel(tmp_path, "csrc/x.cpp")
