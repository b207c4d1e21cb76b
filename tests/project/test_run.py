"""Parts of the tests, run in a small project: what is run, what is kept of it, and the exit code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from layout import HELPERS, TESTS

GROUPS = """
[unit]
about = "quick"
paths = ["tests/unit"]
parallel = true
[core]
about = "divided"
paths = ["tests/test_core.py"]
["full:more"]
about = "the other half"
paths = ["tests/test_core.py::test_long"]
["full:wrong"]
about = "fails"
paths = ["tests/test_wrong.py"]
["full:last"]
about = "after it"
paths = ["tests/test_last.py"]
"""
FILES = {
    "unit/test_a.py": "def test_a(): pass\ndef test_b(): pass\n",
    "test_core.py": "def test_short(): pass\ndef test_long(): pass\n",
    "test_wrong.py": "def test_wrong(): assert False\n",
    "test_last.py": "def test_last(): pass\n",
}


@dataclass(frozen=True)
class Project:
    """A project with these tests and this project's way to run them."""

    root: Path

    def run(self, *words: str) -> tuple[int, str]:
        """Run parts of the tests; return the exit code and what was printed."""
        command = [sys.executable, "tests/run.py", *words]
        # Only the plugin that is needed: pytest starts in a fraction of the time.
        env = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        done = subprocess.run(command, cwd=self.root, env=env, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def reports(self) -> dict[str, list[str]]:
        """Return the tests of each report that a run has left."""
        return {
            path.stem: sorted(case.attrib["name"] for case in ET.parse(path).iter("testcase"))
            for path in (self.root / "dist" / "tests").glob("*.xml")
        }


@pytest.fixture
def project(tmp_path: Path) -> Project:
    tests = tmp_path / "tests"
    for name, text in FILES.items():
        (tests / name).parent.mkdir(parents=True, exist_ok=True)
        (tests / name).write_text(text)
    (tests / "groups.toml").write_text(GROUPS)
    shutil.copy(TESTS / "run.py", tests)
    (tests / "helpers").mkdir()
    for name in ("foreground.py", "groups.py", "layout.py"):
        shutil.copy(HELPERS / name, tests / "helpers")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p xdist\n")
    return Project(tmp_path)


def test_the_groups_of_the_parts_are_run_each_with_its_tests_alone(project: Project) -> None:
    code, said = project.run("--part=unit", "--part=core")
    assert code == 0, said
    assert project.reports() == {"unit": ["test_a", "test_b"], "core": ["test_short"]}
    assert "workers" in said.partition("tests: unit took")[0]
    assert "workers" not in said.partition("tests: unit took")[2]
    assert "tests: core: passed" in said
    assert "slowest 40 durations" in said


def test_a_failure_ends_the_run_and_has_its_report(project: Project) -> None:
    code, said = project.run("--part=full")
    assert code == 1
    assert project.reports() == {"full-more": ["test_long"], "full-wrong": ["test_wrong"]}
    assert said.splitlines()[-3:] == [
        "tests: full:more: passed",
        "tests: full:wrong: failed with pytest's code 1",
        "tests: full:last: not run",
    ]


def test_a_run_may_keep_going(project: Project) -> None:
    code, said = project.run("--part=full", "--keep-going")
    assert code == 1
    assert "tests: full:last: passed" in said
    assert project.reports().keys() == {"full-more", "full-wrong", "full-last"}


def test_groups_are_run_by_name_from_any_session(project: Project) -> None:
    code, _ = project.run("--part=unit", "--part=core", "--group", "full:last")
    assert code == 0
    assert project.reports() == {"full-last": ["test_last"]}


@pytest.mark.parametrize("path", ["tests/test_core.py", "tests/test_core.py::test_long"])
def test_a_path_given_by_hand_is_run_by_itself(project: Project, path: str) -> None:
    code, said = project.run("--part=unit", path, "-q")
    assert code == 0
    assert f"{1 if '::' in path else 2} passed" in said
    assert project.reports() == {}


def test_options_reach_every_group(project: Project) -> None:
    code, said = project.run("--part=unit", "--part=core", "-k", "short")
    assert code == 0, said
    assert "tests: unit: no test is selected" in said
    assert project.reports() == {"unit": [], "core": ["test_short"]}


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--part=unit", "-k", "nothing_of_this_name"], 5, "no test is selected"),
        (["--part=unit", "--group", "full:mroe"], 2, "tests/groups.toml has no full:mroe"),
        (["--part=untit"], 2, "tests/groups.toml has no group of untit"),
    ],
)
def test_nothing_to_run_is_a_failure(project: Project, words: list[str], code: int, message: str) -> None:
    found, said = project.run(*words)
    assert found == code
    assert message in said
    assert [name for name, tests in project.reports().items() if tests] == []


def test_a_group_that_has_become_empty_fails_without_an_option(project: Project) -> None:
    (project.root / "tests" / "test_last.py").write_text("")
    assert project.run("--part=full", "--group", "full:more", "--group", "full:last")[0] == 5
