"""What is wrong with a command line: the nearest name, all that is missing at once, and where options are listed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cpuwheels.cli import main
from cpuwheels.cli.main import cli
from cpuwheels.cli.usage_errors import PER_TARGET
from cpuwheels.core.errors import UsageError

BUILD_HELP = "nox -s build-TARGET -- --help shows all options"


def told(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """Return the lines of what a wrong command line ends with."""
    with pytest.raises(SystemExit) as raised:
        main.main(list(words))
    assert raised.value.code == UsageError.exit_code
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


@pytest.mark.parametrize(
    ("line", "what", "step"),
    [
        ("build x86 --sorce 1", "build has no option --sorce", f"did you mean --source? {BUILD_HELP}"),
        ("build x86 --wat", "build has no option --wat", BUILD_HELP),
        ("parity x86 --smoek", "parity has no option --smoek", "nox -s parity-TARGET -- --help shows all options"),
        ("biuld x86", "there is no command 'biuld'", "did you mean build? cpuwheels --help shows all commands"),
        ("--sorce", "cpuwheels has no option --sorce", "cpuwheels --help shows all commands"),
        ("build", "build needs TARGET", BUILD_HELP),
        ("bisect --run true", "bisect needs --good", "nox -s bisect -- --help shows all options"),
        ("compare", "compare needs BEFORE and AFTER", "nox -s compare -- --help shows all options"),
        ("bisect --bad a", "bisect needs --good", "nox -s bisect -- --help shows all options"),
        ("mirror", "mirror needs FOLDER and WHEEL...", "nox -s mirror -- --help shows all options"),
        ("build x86 --memory banana", "--memory: 'banana' is not a size such as 8G or 512M", BUILD_HELP),
        ("build x86 --memory 0G", "--memory: '0G' is not above zero", BUILD_HELP),
        ("bisect --memory banana", "--memory: 'banana' is not a size such as 8G or 512M", None),
        ("nightly --memory banana", "--memory: 'banana' is not a size such as 8G or 512M", None),
        ("build x86 --jobs 0", "--jobs: '0' is not a whole number of at least 1", BUILD_HELP),
        ("build x86 --jobs 1.5", "--jobs: '1.5' is not a whole number of at least 1", BUILD_HELP),
        ("build x86 --toolchain gcc", "--toolchain: 'gcc' is not one of 'auto', 'host', 'debian'", BUILD_HELP),
        ("clean --down-to banana", "--down-to: 'banana' is not a size such as 8G or 512M", None),
        ("build x86 more", "Got unexpected extra argument (more)", BUILD_HELP),
    ],
)
def test_what_where_and_the_next_step(
    capsys: pytest.CaptureFixture[str], line: str, what: str, step: str | None
) -> None:
    first, where, following = told(capsys, *line.split())
    assert first == f"error: {what}"
    assert where == "  where: command line"
    assert following.startswith("  next:  ")
    assert step is None or following == f"  next:  {step}"


def test_an_option_without_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    first, _, _ = told(capsys, "build", "x86", "--memory")
    assert first == "error: Option '--memory' requires an argument"


def test_a_value_is_passed_on_as_it_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    monkeypatch.setattr("cpuwheels.cli.build.build_target", lambda _, __, options, **___: given.append(options))
    with pytest.raises(SystemExit) as raised:
        main.main(["build", "x86", "--memory", "8G", "--jobs", "03"])
    assert raised.value.code == 0
    assert [(one.memory, one.jobs) for one in given] == [("8G", "03")]


def test_the_commands_with_a_session_for_each_target(project_root: Path) -> None:
    text = (project_root / "noxfile.py").read_text()
    found = set(re.findall(r'_command\(\s*f"([a-z-]+)-\{_id\}"', text))
    assert found == PER_TARGET <= cli.commands.keys()
