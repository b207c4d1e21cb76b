"""A command that runs upstream's code is in a process without credentials: real processes, and what others see."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cpuwheels.cli import clean_process
from cpuwheels.cli.clean_process import HANDOVER, take_over
from cpuwheels.cli.folders import Folders
from cpuwheels.cli.main import cli

PROGRAM = """
import json, os, sys
from pathlib import Path
import click
from cpuwheels.cli import main
from cpuwheels.cli.clean_process import without_credentials
from cpuwheels.cli.folders import pass_paths

@click.command()
@click.option("--env", multiple=True)
@click.option("--safe", is_flag=True)
@without_credentials(when=lambda options: not options["safe"])
def probe(**options):
    block = Path("/proc/self/environ").read_bytes().decode().split("\\0")
    seen = {line.partition("=")[0] for line in block}
    json.dump({"inherited": sorted(seen), "environ": dict(os.environ), "options": options}, sys.stdout)

main.cli.add_command(probe)
main.main()
"""
"""The command line with one more command, which prints what it was started with and what it has now."""

SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "geheim-1",
    "TWINE_PASSWORD": "geheim-2",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "geheim-3",
}
SETTINGS = {"CPUWHEELS_PYPI_INDEX": "https://me:geheim-4@example.org/simple", "https_proxy": "http://me:geheim-5@proxy"}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def run(program: Path, *arguments: str, parent: dict[str, str] | None = None, **variables: str):
    """Run it as a child of a process with some variables, and return its process, what it printed and what it said."""
    clean = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    command = [sys.executable, str(program), "probe", *arguments]
    if parent is not None:
        code = "import os, subprocess, sys, json; sys.exit(subprocess.call(sys.argv[2:], env=json.loads(sys.argv[1])))"
        command = [sys.executable, "-c", code, json.dumps(clean | variables), *command]
    done = subprocess.run(
        command, env=clean | (variables if parent is None else parent), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_it_starts_anew_without_them_and_names_them(program: Path) -> None:
    found, said = run(program, **SECRETS, CXX="g++")
    assert not set(SECRETS) & {*found["inherited"], *found["environ"]}
    assert found["environ"]["CXX"] == "g++"
    notes = [line for line in said.splitlines() if "NOTE" in line]
    assert "ACTIONS_ID_TOKEN_REQUEST_TOKEN, AWS_SECRET_ACCESS_KEY, TWINE_PASSWORD" in notes[0]
    assert "geheim" not in said


def test_a_setting_with_a_password_is_in_its_memory_alone(program: Path) -> None:
    found, said = run(program, **SETTINGS)
    assert {name: found["environ"][name] for name in SETTINGS} == SETTINGS
    assert not set(SETTINGS) & set(found["inherited"])
    assert HANDOVER not in found["environ"]
    assert "NOTE" not in said
    assert "geheim" not in said


def test_options_and_arguments_are_kept(program: Path) -> None:
    found, _ = run(program, "--env", "A B", "--env", "*", **SECRETS)
    assert found["options"]["env"] == ["A B", "*"]


def test_what_is_handed_out_on_purpose_is_kept(program: Path) -> None:
    found, said = run(program, "--env", "TWINE_PASSWORD", **SECRETS)
    assert found["environ"]["TWINE_PASSWORD"] == "geheim-2"
    assert "TWINE_PASSWORD" not in found["inherited"]
    assert "AWS_SECRET_ACCESS_KEY" not in found["environ"]
    assert "TWINE_PASSWORD" not in said


def test_without_credentials_nothing_happens(program: Path) -> None:
    found, said = run(program, CXX="g++")
    assert said == ""
    assert HANDOVER not in found["inherited"]


def test_what_runs_no_code_of_upstream_keeps_them(program: Path) -> None:
    found, said = run(program, "--safe", **SECRETS)
    assert set(SECRETS) <= set(found["environ"])
    assert said == ""


def test_who_started_it_is_named_if_its_credentials_can_be_read(program: Path) -> None:
    text = program.read_text().replace("def probe(**options):", "def probe(**options):\n    note_ancestors()")
    program.write_text(text.replace("import without_credentials", "import note_ancestors, without_credentials"))
    found, said = run(program, parent=SECRETS | dict(os.environ))
    assert not set(SECRETS) & set(found["environ"])
    (note,) = (line for line in said.splitlines() if "outside of a sandbox" in line)
    assert "ACTIONS_ID_TOKEN_REQUEST_TOKEN, AWS_SECRET_ACCESS_KEY" in note
    assert "geheim" not in said


def test_a_call_from_python_is_left_alone() -> None:
    environ = {"AWS_SECRET_ACCESS_KEY": "a"}
    assert not take_over(environ)
    assert environ == {"AWS_SECRET_ACCESS_KEY": "a"}


@pytest.mark.parametrize(
    "name",
    ["build", "parity", "serve", "verify", "bisect", "develop", "kernel-bench", "serve-bench", "image", "nightly"],
)
def test_every_command_that_runs_upstreams_code_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The decorator is the first thing that runs: the command itself is never reached."""

    class StartedError(Exception):
        pass

    def start(*_: object) -> None:
        raise StartedError

    monkeypatch.setattr(clean_process, "start_anew", start)
    arguments = {
        "bisect": ["--good", "a", "--bad", "b"],
        "develop": ["."],
        "kernel-bench": ["x86", "--against", "a.whl"],
        "serve-bench": ["x86", "--against", "a.whl"],
        "image": ["x86", "--test"],
        "nightly": [],
    }
    with pytest.raises(StartedError):
        cli.main([name, *arguments.get(name, ["x86"])], standalone_mode=False, obj=Folders(may_start_anew=True))
