"""What a person sees of the doctor, at several widths and while it is still looking."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from cpuwheels.doctor.check import Check
from cpuwheels.doctor.rows import print_checks

if TYPE_CHECKING:
    from collections.abc import Iterator

URL = "https://github.com/uxlfoundation/oneDNN.git"
LONG = f"cannot be fetched ({URL}: no route to host); the fallback oneDNN 3.7.2 would be used [for it]"
CHECKS = (
    Check("git", "ok", "git version 2.39.5"),
    Check("packages of sysroot-bullseye-amd64", "info", "in the store"),
    Check("oneDNN v3.13", "warn", LONG, "make one of the repositories reachable"),
)


def shown(width: int, *, terminal: bool) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, color_system=None, force_interactive=False)
    assert print_checks(console, "x86", iter(CHECKS)) == CHECKS
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue()).splitlines()]


@pytest.mark.parametrize("width", [40, 60, 80, 96, 120])
def test_a_terminal_is_never_overrun_and_the_verdict_comes_last(width):
    lines = shown(width, terminal=True)
    assert max(map(len, lines)) <= width
    assert lines[-1] == "x86: can be built here (1 warning)"
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == ["ok", "info", "warn", "x86:"]
    assert " ".join(" ".join(lines).split()).count("next: make one of the repositories reachable") == 1


@pytest.mark.parametrize("width", [60, 120])
def test_an_address_that_fits_a_line_is_not_broken(width):
    assert any(URL in line for line in shown(width, terminal=True))


@pytest.mark.parametrize(("status", "colour"), [("ok", 32), ("warn", 32), ("fail", 31)])
def test_the_verdict_is_green_only_if_it_is_good(status, colour):
    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=True, color_system="standard", force_interactive=False)
    print_checks(console, "x86", [Check("git", status, "found")])
    assert re.findall(r"\x1b\[1;(\d+)mx86: can", out.getvalue()) == [str(colour)]


def test_names_have_a_column_where_there_is_room():
    columns = {
        line.index(text)
        for line in shown(120, terminal=True)
        for text in ("git version", "in the store")
        if text in line
    }
    assert len(columns) == 1


def test_elsewhere_no_line_is_broken():
    assert shown(60, terminal=False) == [
        "ok    git: git version 2.39.5",
        "info  packages of sysroot-bullseye-amd64: in the store",
        f"warn  oneDNN v3.13: {LONG}",
        "      next: make one of the repositories reachable",
        "x86: can be built here (1 warning)",
    ]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_row_is_there_before_the_next_is_looked_for(terminal):
    out = io.StringIO()
    console = Console(file=out, width=60, force_terminal=terminal, color_system=None, force_interactive=False)

    def checks() -> Iterator[Check]:
        for check in CHECKS:
            assert check.name not in out.getvalue()
            yield check
            assert check.name in out.getvalue()

    print_checks(console, "x86", checks())
