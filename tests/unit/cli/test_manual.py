"""The manual page: every command and option, in roff that says nothing else."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest

from cpuwheels.cli.main import cli
from cpuwheels.cli.manual import PLACE, interface_files, manual_page
from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.reference import write_reference
from cpuwheels.core.errors import MatrixError, UsageError

if TYPE_CHECKING:
    from pathlib import Path


@click.group(help="Do a thing.\n\nAnd more of it. With a second sentence.")
@click.option("-l", "--loud", is_flag=True, help="Louder.")
def program(loud: bool) -> None:
    del loud


@program.command(help=".dots and 'quotes' and back\\slashes, … too.\n\nA paragraph\nof two lines.")
@click.argument("place")
@click.option("-l", "--loud", is_flag=True, help="Louder.")
@click.option("--how-long", type=int, default=7, show_default=True, metavar="DAYS", help="Until then. At most.")
@click.option("--kind", type=click.Choice(["a", "b"]))
@click.option("--secret", hidden=True, help="Nobody knows.")
def run(**options: object) -> None:
    del options


@program.command(hidden=True, help="Not for people.")
def inner() -> None:
    pass


PAGE = manual_page(program, [(2, "Wrong use."), (70, "Stopped.")])


def test_what_a_page_says() -> None:
    (name,) = (line for line in PAGE.splitlines() if line.startswith("cpuwheels \\-"))
    assert name == "cpuwheels \\- do a thing"
    assert ".SH DESCRIPTION\nDo a thing.\n.PP\nAnd more of it.\nWith a second sentence.\n.SH OPTIONS" in PAGE
    assert ".SS cpuwheels run\n.B cpuwheels run\n[OPTIONS] PLACE\n.PP\n" in PAGE
    assert ".TP\n\\fB\\-\\-how\\-long\\fR \\fIDAYS\\fR\nUntil then.\nAt most. [default: 7]\n" in PAGE
    assert ".TP\n\\fB\\-\\-kind\\fR \\fI[a|b]\\fR\n" in PAGE
    assert ".SH EXIT STATUS\n.TP\n.B 0\nDone.\n.TP\n.B 2\nWrong use.\n.TP\n.B 70\nStopped.\n" in PAGE


def test_an_option_that_all_commands_have_is_there_once() -> None:
    assert PAGE.count("\\fB\\-l\\fR, \\fB\\-\\-loud\\fR") == 1


def test_what_is_hidden_stays_so() -> None:
    assert "Nobody" not in PAGE
    assert "Not for people" not in PAGE


def test_no_text_is_a_request() -> None:
    assert "\n\\&.dots and 'quotes' and back\\eslashes, \\[u2026] too.\n.PP\nA paragraph of two lines.\n" in PAGE
    assert PAGE.isascii()


def test_every_command_option_and_exit_code_is_in_the_page(project_root: Path) -> None:
    page = (project_root / "share" / PLACE).read_text()
    for name, command in cli.commands.items():
        section = page.partition(f".SS cpuwheels {name.replace('-', chr(92) + '-')}\n")[2].partition("\n.S")[0]
        own = {option for param in cli.params for option in param.opts}
        for param in command.params:
            if isinstance(param, click.Option) and not param.hidden and not own & set(param.opts):
                assert param.opts[-1].replace("-", "\\-") in section, f"{name} {param.name}"
    for error in (UsageError, MatrixError):
        assert f".B {error.exit_code}\n" in page


def test_the_page_is_current(project_root: Path) -> None:
    files = interface_files(project_root / "share", cli)
    assert {path: path.read_text() for path in files} == files, "run nox -s schema"


def test_nothing_of_the_machine_is_in_it(project_root: Path, tmp_path: Path) -> None:
    text = (
        "from cpuwheels.cli.main import cli; from cpuwheels.cli.manual import manual_page; print(manual_page(cli, []))"
    )
    env = {"HOME": str(tmp_path), "LC_ALL": "C", "COLUMNS": "40", "CPUWHEELS_CACHE": "/stores", "MAX_JOBS": "3"}
    done = subprocess.run(
        [sys.executable, "-c", text], env=env, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == manual_page(cli, []).strip()
    assert str(project_root) not in done.stdout


def test_a_stale_page_is_an_error(project_root: Path, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for page in ("README.md", "docs/troubleshooting.md"):
        (tmp_path / page).write_text((project_root / page).read_text())
    matrix = load_matrix(project_root)
    also = interface_files(tmp_path / "share", cli)
    write_reference(tmp_path, matrix, only_check=False, also=also)
    (tmp_path / "share" / PLACE).write_text("old\n")
    with pytest.raises(MatrixError, match=r"share/man/man1/cpuwheels\.1 no longer fit"):
        write_reference(tmp_path, matrix, only_check=True, also=also)
