"""Old spellings: what they ask for, what they print, and until when they work."""

from __future__ import annotations

import importlib.metadata
import shlex
from typing import TYPE_CHECKING

import click
import pytest
from packaging.version import Version

from cpuwheels.cli import main
from cpuwheels.cli.folders import Folders
from cpuwheels.cli.main import cli
from cpuwheels.cli.renamed import COMMANDS, OPTIONS, WORK_UNTIL, renamed_page
from cpuwheels.core.errors import UnusableWheelError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

LINES = [
    ("parity x86 --smoke", "parity x86 --level smoke"),
    ("parity x86 --deep --threads 2", "parity x86 --level deep --threads 2"),
    ("parity x86 --compare a.json", "parity x86 --against a.json"),
    ("bisect --good a --bad b --run true --jobs 3", "bisect --good a --bad b --run true --commits-at-once 3"),
    ("bisect --good a --bad b --run true --jobs=3", "bisect --good a --bad b --run true --commits-at-once 3"),
    (
        "bisect --good a --bad b --run true --env A --env B",
        "bisect --good a --bad b --run true --pass-env A --pass-env B",
    ),
    ("doctor --runtime --requests 9", "doctor --runtime --at-once 9"),
    ("image x86 --check", "image x86 --test"),
    ("verify-provenance a.whl --key a --key b", "verify-provenance a.whl --trusted-key a --trusted-key b"),
]


def parsed(line: str) -> dict[str, object]:
    """Return what click makes of a command line."""
    words = shlex.split(line)
    context = cli.make_context("cpuwheels", words, obj=Folders())
    name, command, rest = cli.resolve_command(context, words)
    assert command is not None
    return command.make_context(name, rest, parent=context).params


@pytest.mark.parametrize(("old", "new"), LINES)
def test_an_old_spelling_asks_for_the_same(old: str, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = parsed(new)
    assert capsys.readouterr().err == ""
    assert parsed(old) == wanted
    note = capsys.readouterr().err.splitlines()[0]
    assert note.startswith("[cpuwheels] NOTE --")
    assert " is the old spelling of --" in note
    assert note.endswith(f" and works until version {WORK_UNTIL}")


def test_each_old_option_is_tried_here() -> None:
    tried = {(line.split()[0], word.partition("=")[0]) for line, _ in LINES for word in line.split()}
    assert {(command, old) for command, options in OPTIONS.items() for old in options} <= tried


def test_the_old_name_of_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert COMMANDS == {"check": "parity"}
    for words in (["check", "x86"], ["parity", "x86"]):
        with pytest.raises(SystemExit) as raised:
            main.main(words)
        assert raised.value.code == UnusableWheelError.exit_code
        told = capsys.readouterr().err
        assert ("NOTE check is the old spelling of parity" in told) == (words[0] == "check")


@pytest.mark.parametrize("words", [["-q", "parity", "x86", "--smoke"], ["parity", "x86", "--smoke", "-q"]])
def test_quiet_hides_the_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, words: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main.main(words)
    told = capsys.readouterr().err
    assert "NOTE" not in told
    assert "error: " in told


def test_a_process_that_was_started_anew_does_not_say_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    context = click.Context(cli, obj=Folders(is_started_anew=True))
    name, _, rest = cli.resolve_command(context, ["check", "x86"])
    assert (name, rest) == ("parity", ["x86"])
    assert capsys.readouterr().err == ""


def test_both_spellings_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main.main(["parity", "x86", "--smoke", "--level", "full"])
    assert raised.value.code == UsageError.exit_code
    assert "--smoke is the old spelling of --level smoke; give one of both" in capsys.readouterr().err


def test_a_wrong_value_is_refused_by_the_new_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main.main(["bisect", "--good", "a", "--bad", "b", "--jobs", "0"])
    assert "error: --commits-at-once: 0 is not in the range" in capsys.readouterr().err


@pytest.mark.parametrize("command", OPTIONS)
def test_help_has_the_new_spellings_alone(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main.main([command, "--help"])
    words = capsys.readouterr().out.split()
    for old, new in OPTIONS[command].items():
        assert old not in words
        assert new.partition(" ")[0] in words


def test_they_are_taken_out_with_the_version_that_they_name() -> None:
    assert Version(importlib.metadata.version("cpuwheels")) < Version(f"{WORK_UNTIL}.dev0")


def test_the_page_lists_them() -> None:
    page = renamed_page()
    assert "| `cpuwheels check` | `cpuwheels parity` |" in page
    assert "| `cpuwheels parity --smoke` | `cpuwheels parity --level smoke` |" in page
    assert page.count("\n| `") == len(COMMANDS) + sum(map(len, OPTIONS.values()))
