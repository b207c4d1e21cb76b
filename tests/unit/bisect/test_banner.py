"""The last lines on the terminal."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from bisections import FOUND, LEFT, outcome
from cpuwheels.bisect.banner import print_banner

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.bisect.search import Verdict

pytestmark = pytest.mark.usefixtures("plain_git")


@pytest.mark.parametrize("verdicts", [FOUND, LEFT], ids=["found", "left"])
@pytest.mark.parametrize("width", [60, 120])
def test_on_a_terminal_it_stands_between_rules_and_nothing_is_broken(
    tmp_path: Path, verdicts: dict[int, Verdict], width: int
) -> None:
    result, screen = outcome(tmp_path, verdicts), io.StringIO()
    console = Console(file=screen, width=width, force_terminal=True, color_system=None)
    print_banner(result, console)
    first, *lines, last = screen.getvalue().splitlines()
    assert first == last == "─" * width
    assert lines == result.as_lines()


def test_elsewhere_it_is_the_lines_alone(tmp_path: Path) -> None:
    result, screen = outcome(tmp_path, FOUND), io.StringIO()
    print_banner(result, Console(file=screen, width=60))
    assert screen.getvalue().splitlines() == result.as_lines()


def test_it_says_what_a_bad_commit_is(tmp_path: Path) -> None:
    result, screen = outcome(tmp_path, FOUND, {"run": "true", "regress": "success"}), io.StringIO()
    print_banner(result, Console(file=screen, width=60))
    assert result.found is not None
    assert screen.getvalue().startswith(f"{result.found.commit} is the first bad commit (it succeeds)\n")
