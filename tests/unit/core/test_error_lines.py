"""Errors as a person sees them, on terminals of several widths and in a pipe."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from cpuwheels.core.error_lines import print_error
from cpuwheels.core.errors import CompileError
from pseudo_terminal import WIDTHS, printed

URL = "https://packages.example.org/projects/uxlfoundation/oneDNN/archive/refs/heads/rls-v3.13.git"
ERROR = CompileError(
    f"csrc/cpu/layernorm.cpp.o could not be made from {URL} [bold]at all[/bold]",
    where="the first failed job of very many that were to be run here",
    log=Path("/home/me/vllm/dist/logs/compile.log"),
    output="layernorm.cpp:12:5: error: 'vec_op'\n   12 |     vec_op::fma(a, b);",
    next_step="read the log; running the same command again goes on from here",
)


def test_in_a_pipe_no_line_is_broken() -> None:
    out = io.StringIO()
    print_error(Console(file=out, width=60, soft_wrap=True), ERROR)
    assert out.getvalue() == f"error: {ERROR}\n"


@pytest.mark.parametrize("width", WIDTHS)
def test_what_where_and_next_stand_apart(width: int) -> None:
    terminal = printed(lambda console: print_error(console, ERROR), width)
    assert "".join("".join(terminal.lines).split()) == "".join(f"error: {ERROR}".split())
    assert URL.encode() in terminal.raw
    labels = [row.split()[0] for row in terminal.rows if row[:2] == "  " and row[2] not in " |"]
    assert [label for label in labels if label.endswith(":")] == ["where:", "log:", "next:"]
    continued = [row for row in terminal.rows if row.startswith(" " * 9) and row[9] != " "]
    assert len(continued) == (2 if width == 60 else 0), "the rest of a part stands below its beginning"
    assert "    |    12 |     vec_op::fma(a, b);" in terminal.rows


def test_each_part_has_a_style_of_its_own() -> None:
    out = io.StringIO()
    print_error(Console(file=out, width=120, force_terminal=True, color_system="standard"), ERROR)
    assert "\x1b[1;31merror: \x1b[0m\x1b[1mcsrc" in out.getvalue()
    assert "\x1b[2mwhere:\x1b[0m the first" in out.getvalue()
    assert "\x1b[1;32mnext:\x1b[0m  read" in out.getvalue()


def test_without_a_head() -> None:
    out = io.StringIO()
    print_error(Console(file=out, width=60), CompileError("stopped"), head="", style="")
    assert out.getvalue() == "stopped\n"
