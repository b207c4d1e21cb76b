from __future__ import annotations

import logging
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.console import Reporter
from cpuwheels.core.verbosity import Verbosity, is_quiet, set_verbosity, verbosity_arguments

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    set_verbosity(Verbosity.NORMAL)


@pytest.mark.parametrize(
    ("chosen", "report", "command", "options"),
    [
        (Verbosity.QUIET, False, False, ["-q"]),
        (Verbosity.NORMAL, True, False, []),
        (Verbosity.VERBOSE, True, True, ["-v"]),
    ],
)
def test_what_is_printed(chosen: Verbosity, report: bool, command: bool, options: list[str], capsys) -> None:
    set_verbosity(chosen)
    Reporter("x86").info("a stage")
    logging.getLogger("cpuwheels.core.process").info("$ command")
    logging.getLogger("cpuwheels.core.store").warning("damaged")
    err = capsys.readouterr().err
    assert ("a stage" in err, "$ command" in err) == (report, command)
    assert err.count("damaged") == 1
    assert is_quiet() == (not report)
    assert verbosity_arguments() == options


def test_other_programs_libraries_stay_silent(capsys) -> None:
    set_verbosity(Verbosity.VERBOSE)
    logging.getLogger("httpx").info("a request")
    assert capsys.readouterr().err == ""


def test_an_announcement_is_kept_where_it_is_not_printed(capsys) -> None:
    set_verbosity(Verbosity.QUIET)
    reporter = Reporter("x86")
    reporter.announce("a note")
    assert (reporter.announcements, capsys.readouterr().err) == (["a note"], "")


def test_what_is_logged_leaves_a_live_line_whole() -> None:
    """The handler writes to standard error as it is at the time, which rich replaces while a live line is shown."""
    script = (
        "import io, logging, sys\n"
        "from cpuwheels.core.verbosity import Verbosity, set_verbosity\n"
        "set_verbosity(Verbosity.VERBOSE)\n"
        "sys.stderr = io.StringIO()\n"
        "logging.getLogger('cpuwheels').info('$ command')\n"
        "print(sys.stderr.getvalue(), end='')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("$ command\n", "")
