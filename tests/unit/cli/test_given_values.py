"""Values that are empty, and folders in place of wheels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest

from cpuwheels.cli.given_values import GivenPath
from cpuwheels.cli.main import cli, main

if TYPE_CHECKING:
    from pathlib import Path

PATHS = [
    (name, parameter)
    for name, command in sorted({"": cli, **cli.commands}.items())
    for parameter in command.params
    if isinstance(parameter.type, click.Path)
]


def test_there_are_commands_with_paths() -> None:
    assert {"", "build", "make-key", "publish"} <= {name for name, _ in PATHS}


@pytest.mark.parametrize(("command", "parameter"), PATHS, ids=[f"{name} {one.name}" for name, one in PATHS])
def test_every_path_is_one_that_is_given(command: str, parameter: click.Parameter) -> None:
    assert isinstance(parameter.type, GivenPath), command
    with pytest.raises(click.BadParameter, match="the path is empty"):
        parameter.type.convert("", parameter, None)


@pytest.mark.parametrize("words", [["make-key", ""], ["build", "x86", "--dist", ""], ["--dist", "", "matrix"]])
def test_the_message(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "the path is empty; is a variable not set?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["publish", "{}"],
        ["sign", "{}", "--key", "k"],
        ["verify-provenance", "{}", "--trusted-key", "k"],
        ["pylock", "x86", "{}"],
        ["parity", "x86", "--wheel", "{}"],
        ["serve", "x86", "--wheel", "{}"],
        ["image", "x86", "--wheel", "{}"],
        ["kernel-bench", "x86", "--against", "{}"],
    ],
    ids=" ".join,
)
def test_a_folder_is_no_wheel(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([word.format(tmp_path) for word in words])
    assert ended.value.code == 2
    assert f"{tmp_path} is a folder, not a file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["build", "x86", "--source", ""], "--source"),
        (["build", ""], "TARGET"),
        (["bisect", "--good", "v0.32.0", "--bad", ""], "--bad"),
        (["parity", "x86", "--operator", "a", "--operator", ""], "--operator"),
        (["publish", "a.whl", "--commit", ""], "--commit"),
        (["mirror", "folder", "a.whl", ""], "WHEEL"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else one,
)
def test_no_text_is_empty(words: list[str], name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert name in said.splitlines()[0]
    assert "the text is empty; is a variable not set?" in said


def test_what_is_not_given_may_be_empty() -> None:
    (bad,) = (one for one in cli.commands["bisect"].params if one.name == "bad")
    context = click.Context(cli.commands["bisect"])
    assert bad.handle_parse_result(context, {}, [])[0] == ""
