"""What a person sees of the doctor, at several widths and while it is still looking."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from cpuwheels.doctor.check import Check
from cpuwheels.doctor.rows import print_checks
from pseudo_terminal import WIDTHS, printed

if TYPE_CHECKING:
    from collections.abc import Iterator

URL = "https://packages.example.org/projects/uxlfoundation/oneDNN/archive/refs/heads/rls-v3.13.git"
LONG = f"cannot be fetched ({URL} : no route to host); the fallback oneDNN 3.7.2 would be used [for it]"
CHECKS = (
    Check("git", "ok", "git version 2.39.5", group="Machine"),
    Check("compiler g++", "info", "too old", "install another", group="Compilers"),
    Check("oneDNN v3.13", "warn", LONG, "make one of the repositories reachable", group="Fetched"),
    Check("packages of sysroot-bullseye-amd64", "ok", "in the store", group="Fetched"),
)
FAILED = Check("torch", "fail", "cannot be fetched", "find one", group="Fetched")


def shown(width: int, *checks: Check) -> list[str]:
    return [
        row for row in printed(lambda console: print_checks(console, "x86", checks), width).rows if "looking" not in row
    ]


def piped(*checks: Check, encoding: str = "utf-8") -> list[str]:
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    assert print_checks(Console(file=out, width=60), "x86", iter(checks)) == checks
    out.seek(0)
    return out.read().splitlines()


WHOLE = [
    "What a build of x86 needs:",
    "",
    "Machine",
    "✓ git: git version 2.39.5",
    "",
    "Compilers",
    "· compiler g++: too old",
    "    next: install another",
    "",
    "Fetched",
    "! oneDNN v3.13: see below",
    "✓ packages of sysroot-bullseye-amd64: in the store",
    "✗ torch: see below",
    "",
    "Warnings",
    f"! oneDNN v3.13: {LONG}",
    "    next: make one of the repositories reachable",
    "",
    "What prevents a build",
    "✗ torch: cannot be fetched",
    "    next: find one",
    "",
    "✗ x86: cannot be built here yet (1 failure, 1 warning)",
]


def test_groups_then_problems_then_the_verdict_and_no_line_is_broken_elsewhere():
    assert piped(*CHECKS, FAILED) == WHOLE


@pytest.mark.parametrize("width", [40, *WIDTHS])
def test_a_terminal_shows_the_same_at_every_width(width):
    rows = shown(width, *CHECKS, FAILED)
    assert " ".join(" ".join(rows).split()).replace(" ", "") == "".join("".join(WHOLE).split())
    assert rows[-1] == (WHOLE[-1] if width > 53 else "  failure, 1 warning)")
    assert [row[0] for row in rows if row[:1] in "✓·!✗" and row] == list("✓·!✓✗!✗✗")
    marked = [row for row in rows if row.startswith(("✓", "!", "✗", "·"))]
    assert [row for row in marked if row[1] != " "] == []


@pytest.mark.parametrize("width", WIDTHS)
def test_an_address_is_not_broken(width):
    terminal = printed(lambda console: print_checks(console, "x86", CHECKS), width)
    assert URL.encode() in terminal.raw


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        ("ok", "✓ x86: can be built here"),
        ("warn", "✓ x86: can be built here (1 warning)"),
        ("fail", "✗ x86: cannot be built here yet (1 failure)"),
    ],
)
def test_the_verdict_comes_last(status, verdict):
    assert shown(60, Check("git", status, "found"))[-1] == verdict


@pytest.mark.parametrize(("status", "colour"), [("ok", 32), ("warn", 32), ("fail", 31)])
def test_the_verdict_is_green_only_if_it_is_good(status, colour):
    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=True, color_system="standard", force_interactive=False)
    print_checks(console, "x86", [Check("git", status, "found")])
    assert re.findall(r"\x1b\[1;(\d+)m[✓✗]", out.getvalue().splitlines()[-1]) == [str(colour)]


def test_where_there_are_letters_of_ascii_only_the_marks_are_of_those():
    marks = [line[0] for line in piped(*CHECKS, FAILED, encoding="ascii") if line[1:2] == " " and line[0] != " "]
    assert "".join(marks) == "+-!+x!xx"


@pytest.mark.parametrize("terminal", [True, False])
def test_a_line_is_there_before_the_next_is_looked_for(terminal):
    out = io.StringIO()
    console = Console(file=out, width=60, force_terminal=terminal, color_system=None, force_interactive=False)

    def checks() -> Iterator[Check]:
        assert "What a build of x86 needs:" in out.getvalue()
        for check in CHECKS:
            assert check.name not in out.getvalue()
            yield check
            assert check.name in out.getvalue()

    print_checks(console, "x86", checks())
