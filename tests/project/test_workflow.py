"""The nightly workflow of GitHub Actions: its form, and that what it calls is there."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cpuwheels.cli.main import cli, main
from cpuwheels.config.matrix import load_matrix

RUNNERS = re.compile(r"ubuntu-\d\d\.04(-arm)?|macos-\d\d")


@pytest.fixture
def workflow(project_root: Path) -> Path:
    return project_root / ".github" / "workflows" / "nightly.yml"


def test_it_is_a_workflow(workflow: Path) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", workflow]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_broken_one_is_found(workflow: Path, tmp_path: Path) -> None:
    broken = tmp_path / "nightly.yml"
    broken.write_text(workflow.read_text().replace("runs-on: ubuntu-24.04", "runs_on: ubuntu-24.04"))
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", broken]
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0


def test_what_it_calls_has_the_options_that_it_gives(workflow: Path) -> None:
    jobs = yaml.safe_load(workflow.read_text())["jobs"]
    lines = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    found = [re.search(r"nox -s (\S+) -- (.*)", line, re.DOTALL) for line in lines]
    assert [match[1] for match in found if match] == ["matrix", "nightly"]
    for match in filter(None, found):
        known = {name for option in cli.commands[match[1]].params for name in option.opts}
        given = {
            word for word in shlex.split(match[2].replace("\\\n", " ").partition(')"')[0]) if word.startswith("--")
        }
        assert {word for word in given if word != "--since"} <= known
    assert "--since" in {name for option in cli.commands["nightly"].params for name in option.opts}


def test_its_matrix_is_that_of_the_targets(project_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--root", str(project_root), "matrix", "--github"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    rows = json.loads(out)["include"]
    ready = [target for target in load_matrix(project_root).targets if target.is_ready]
    assert [row["target"] for row in rows] == [target.id for target in ready]
    assert all(RUNNERS.fullmatch(row["runner"]) for row in rows)
    native = {row["target"]: row["runner"] for row in rows}
    assert native["arm"].endswith("-arm")
    assert native["macos"].startswith("macos")
