"""What a word on the command line may become, asked for as the shells' scripts ask."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from click.shell_completion import ShellComplete

from cpuwheels.cli.completion import PROGRAM, SCRIPTS, VARIABLE, TargetType, WheelType, completion_scripts
from cpuwheels.cli.main import cli
from cpuwheels.config.matrix import load_matrix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from click.shell_completion import CompletionItem


def offered(words: Sequence[str], incomplete: str = "") -> list[CompletionItem[str]]:
    return ShellComplete(cli, {}, PROGRAM, VARIABLE).get_completions(list(words), incomplete)


def values(*words: str, incomplete: str = "") -> list[str]:
    return [item.value for item in offered(words, incomplete)]


@pytest.fixture(autouse=True)
def in_the_project(project_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project_root)


def test_commands_and_options() -> None:
    assert {"build", "bisect"} <= set(values())
    assert values(incomplete="verify-") == ["verify-provenance"]
    assert "--toolchain" in values("build", incomplete="--to")
    assert values("build", "--toolchain") == ["auto", "host", "debian"]


@pytest.mark.parametrize(
    "words", [("build",), ("check",), ("doctor",), ("image", "x86"), ("bisect", "--target"), ("nightly", "--target")]
)
def test_targets_are_those_of_the_matrix(project_root: Path, words: Sequence[str]) -> None:
    targets = {target.id: target.description for target in load_matrix(project_root).targets}
    assert {item.value: item.help for item in offered(words)} == targets
    assert values(*words, incomplete="x") == ["x86"]
    assert values(*words, incomplete="y") == []


def test_targets_are_those_of_the_matrix_that_is_named(project_root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text((project_root / "matrix.yaml").read_text().replace("- id: s390x", "- id: mainframe"))
    assert "mainframe" in values("--matrix", str(other), "build")


@pytest.mark.parametrize("text", ["", "targets: [", "targets: 1"])
def test_a_matrix_that_cannot_be_read_gives_nothing_and_no_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "matrix.yaml").write_text(text)
    assert values("--matrix", str(tmp_path / "matrix.yaml"), "build") == []
    assert values("--matrix", str(tmp_path / "missing.yaml"), "build") == []
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "words", [("sign",), ("rebuild",), ("mirror", "folder"), ("doctor", "--runtime"), ("--root",), ("compare", "a.whl")]
)
def test_files_are_left_to_the_shell(words: Sequence[str]) -> None:
    (item,) = offered(words, "dist/a")
    assert (item.type, item.value) == ("file", "dist/a")


def test_every_argument_has_something_to_offer() -> None:
    plain = {
        f"{name} {param.name}"
        for name, command in cli.commands.items()
        for param in command.params
        if isinstance(param, click.Argument) and param.type is click.STRING
    }
    assert plain == set()
    types = {type(param.type) for command in cli.commands.values() for param in command.params}
    assert {TargetType, WheelType} <= types


def test_a_value_is_taken_as_it_is() -> None:
    for kind in (TargetType(), WheelType()):
        assert kind.convert("anything: at-all", None, None) == "anything: at-all"


def test_the_scripts_are_current(project_root: Path) -> None:
    made = {project_root / "share" / place: text for place, text in completion_scripts(cli)}
    assert len(made) == len(SCRIPTS)
    assert {path: path.read_text() for path in made} == made, "run nox -s schema"


def test_the_program_prints_the_scripts(project_root: Path) -> None:
    """By the variable that the documentation names; click's words, which may end in another blank line."""
    for shell, place in SCRIPTS.items():
        done = subprocess.run(
            ["cpuwheels"],
            env={**_environment(), VARIABLE: f"{shell}_source"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.rstrip() == (project_root / "share" / place).read_text().rstrip()


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
