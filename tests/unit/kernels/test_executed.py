"""What counts for kernels by rule, so that no report of a build is needed to be believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.errors import CompileError
from cpuwheels.kernels.executed import check_links, counted_files, unreported_reads

if TYPE_CHECKING:
    from pathlib import Path

RUN = (
    "CMakeLists.txt",
    "cmake/cpu.cmake",
    "cmake/hipify.py",
    "cmake/patches/a.patch",
    "csrc/CMakeLists.txt",
    "csrc/a.h.in",
    "csrc/cpu/generate.py",
    "csrc/cpu/list.json",
    "csrc/cpu/run",
    "csrc/cpu/run.sh",
    "csrc/cpu/more.cmake",
)
COMPILED = ("csrc/a.cu", "csrc/cpu/a.cpp", "csrc/cpu/a.hpp", "csrc/README.md", "csrc/cpu/.gitignore", "csrc/a.inl")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name in (*RUN, *COMPILED, "setup.py", "vllm/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("// embedding, inbinc, has_include, #include <a.h>, a.included\n")
    return tmp_path


def test_all_that_may_run_counts(source: Path) -> None:
    assert sorted(counted_files(source)) == sorted(RUN)
    assert unreported_reads(source) == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('asm(".incbin \\"/etc/passwd\\"");', "incbin"),
        ('asm(".include \\"other.s\\"");', ".include"),
        ("const char data[] = {\n#  embed <data>\n};", "#  embed"),
        ("%:embed <data>", "%:embed"),
        ("#if __has_embed(<data>)", "__has_embed"),
        ('#if __has_include("new.h")', "__has_include"),
    ],
)
@pytest.mark.parametrize("name", ["csrc/cpu/a.hpp", "csrc/a.cu"])
def test_a_read_that_no_compiler_reports_makes_all_count(source: Path, name: str, text: str, words: str) -> None:
    (source / name).write_text(text)
    assert unreported_reads(source) == f"{name} has {words}"
    assert sorted(counted_files(source)) == sorted((*RUN, *COMPILED))


def test_so_does_a_link(source: Path) -> None:
    (source / "csrc/link.h").symlink_to("cpu/a.hpp")
    assert unreported_reads(source) == "csrc/link.h is a symbolic link"
    assert sorted(counted_files(source)) == sorted((*RUN, *COMPILED, "csrc/link.h"))
    check_links(source)


def test_a_linked_folder_is_not_gone_into(source: Path) -> None:
    (source / "cmake").rename(source / "elsewhere")
    (source / "cmake").symlink_to("elsewhere")
    assert "cmake" in counted_files(source)
    with pytest.raises(CompileError, match="cmake is a symbolic link to 'elsewhere'"):
        check_links(source)


def test_a_tree_without_any_has_none(tmp_path: Path) -> None:
    assert counted_files(tmp_path) == []
    assert unreported_reads(tmp_path) == ""
    check_links(tmp_path)
