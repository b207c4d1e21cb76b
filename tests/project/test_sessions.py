"""The sessions of commands, run by nox in a copy of the project: one environment for all, and no words of nox."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cpuwheels.config.matrix import load_matrix
from cpuwheels.core.errors import PublishError, StoppedError, UnusableWheelError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(__file__).parents[2]
MADE = "making the environment"


class Copy:
    """A copy of the project, committed."""

    def __init__(self, folder: Path, project: Path) -> None:
        self.folder = folder
        names = subprocess.run(
            ["git", "ls-files", "-z"], cwd=project, capture_output=True, text=True, check=True
        ).stdout
        for name in filter(None, names.split("\0")):
            if (project / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(project / name, folder / name)
        self._git("init", "--quiet")
        self.commit()

    def commit(self) -> None:
        """Make a commit, so that the package has another version."""
        self._git("add", "--all")
        self._git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "--allow-empty", "--message=x")

    def start(self, *arguments: str, cwd: Path | None = None) -> subprocess.Popen[str]:
        """Start nox in a process group of its own, in another folder than the project's if one is given."""
        noxfile = ["-f", str(self.folder / "noxfile.py")] if cwd else []
        return subprocess.Popen(
            [sys.executable, "-m", "nox", *noxfile, *arguments],
            cwd=cwd or self.folder,
            env=os.environ | {"NO_COLOR": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, cwd: Path | None = None) -> tuple[int, str, str]:
        """Run nox; its exit code, standard output and standard error."""
        process = self.start(*arguments, cwd=cwd)
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err

    def environments(self) -> set[Path]:
        """The environments of commands."""
        return {path for path in (self.folder / ".nox" / "cpuwheels").iterdir() if path.is_dir()}

    def _git(self, *arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=self.folder, check=True)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(tmp_path_factory.mktemp("copy"), PROJECT)


@pytest.fixture(scope="module", autouse=True)
def first(copy: Copy) -> list[tuple[str, str, int]]:
    """What two noxes did that were started at the same time, where nothing was installed."""
    both = [copy.start("-s", "matrix"), copy.start("-s", "schema", "--", "--check")]
    return [(*(process.communicate(timeout=600)), process.returncode) for process in both]


def test_two_at_once_make_one_environment(copy: Copy, first: list[tuple[str, str, int]]) -> None:
    assert [code for _, _, code in first] == [0, 0], first
    assert sum(MADE in err for _, err, _ in first) == 1
    assert len(copy.environments()) == 1


def test_every_target_has_its_sessions(copy: Copy) -> None:
    code, out, _ = copy.run("--list")
    assert code == 0
    listed = dict(re.findall(r"^[-*] (\S+)(?: \[\w+\])? -> (.+)$", out, re.MULTILINE))
    for target in load_matrix(PROJECT).targets:
        planned = "" if target.is_ready else " [planned]"
        assert listed[f"build-{target.id}"] == f"Build the wheel: {target.description}{planned}"
        for command in ("parity", "serve", "verify", "kernel-bench"):
            assert target.id in listed[f"{command}-{target.id}"]
    assert "kernel-bench" not in listed


def test_another_session_prints_its_answer_alone(copy: Copy) -> None:
    code, out, err = copy.run("-s", "matrix", "--", "--github")
    assert (code, err) == (0, "")
    assert [row["target"] for row in json.loads(out)["include"]] == [
        target.id for target in load_matrix(copy.folder).targets if target.is_ready and target.runner
    ]


def test_a_verbose_nox_reports_the_session(copy: Copy) -> None:
    code, _, err = copy.run("--verbose", "-s", "matrix")
    assert code == 0
    assert "Running session matrix" in err
    assert "Session matrix was successful" in err


def test_the_exit_code_is_the_commands_own(copy: Copy) -> None:
    code, out, err = copy.run("-s", "build-x86", "--", "--memory", "banana")
    assert (code, out) == (UsageError.exit_code, "")
    assert err.startswith("error: --memory: 'banana'")


def test_paths_mean_the_folder_in_which_nox_was_started(copy: Copy, tmp_path: Path) -> None:
    code, out, err = copy.run("-s", "serve-index", "--", "--index", "wheels", cwd=tmp_path)
    assert (code, out) == (PublishError.exit_code, "")
    assert f"where: {tmp_path / 'wheels'}\n" in err
    # The project is still the noxfile's.
    code, out, err = copy.run("-s", "check-index", cwd=tmp_path)
    assert (code, out) == (PublishError.exit_code, "")
    assert str(copy.folder / "dist" / "index") in err
    assert copy.run("-s", "matrix", cwd=tmp_path)[0] == 0


def test_the_command_of_a_bisection_is_run_where_nox_was_started(copy: Copy, tmp_path: Path) -> None:
    ends = ["--target", "x86", "--good", "a", "--bad", "b", "--repo", str(copy.folder)]
    code, _, err = copy.run("-s", "bisect", "--", *ends, "--run", "./repro.sh", cwd=tmp_path)
    assert code == UsageError.exit_code
    assert f"commands run in {tmp_path}" in err
    (tmp_path / "repro.sh").touch(0o755)
    code, _, err = copy.run("-s", "bisect", "--", *ends, "--run", "./repro.sh", cwd=tmp_path)
    assert code != UsageError.exit_code, "the command is found, the ends are not"
    assert "repro.sh" not in err


def test_a_quiet_command_prints_its_result_alone(copy: Copy) -> None:
    for environment in copy.environments():
        (environment / "cpuwheels-installed.txt").unlink()
    code, out, err = copy.run("-s", "matrix", "--", "-q")
    assert (code, err) == (0, "")
    assert "x86: " in out


def test_an_environment_that_was_not_finished_is_made_anew(copy: Copy) -> None:
    (environment,) = copy.environments()
    (environment / "cpuwheels-installed.txt").unlink()
    (environment / "bin" / "cpuwheels").unlink()
    code, _, err = copy.run("-s", "matrix")
    assert (code, MADE in err) == (0, True)
    assert copy.environments() == {environment}


@pytest.fixture
def serving(copy: Copy, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A command that runs until it is interrupted."""
    (tmp_path / "index.json").write_text("{}")
    process = copy.start("-s", "serve-index", "--", "--index", str(tmp_path), "--port", "0")
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_a_running_command_keeps_its_environment(copy: Copy, serving: subprocess.Popen[str]) -> None:
    (before,) = copy.environments()
    copy.commit()
    assert copy.run("-s", "matrix")[0] == 0
    (after,) = copy.environments() - {before}
    assert (before / "bin" / "cpuwheels").is_file()
    os.killpg(serving.pid, signal.SIGINT)
    _, err = serving.communicate(timeout=60)
    assert serving.returncode == StoppedError.exit_code
    assert "Traceback" not in err
    assert copy.run("-s", "matrix")[0] == 0
    assert copy.environments() == {after}


def test_a_command_that_outlives_nox_keeps_its_environment(copy: Copy, serving: subprocess.Popen[str]) -> None:
    (before,) = copy.environments()
    serving.kill()
    serving.wait(60)
    copy.commit()
    assert copy.run("-s", "matrix")[0] == 0
    assert before in copy.environments()
    os.killpg(serving.pid, signal.SIGKILL)  # the command, which is left in the group
    deadline = time.monotonic() + 60
    while before in copy.environments():
        assert time.monotonic() < deadline
        assert copy.run("-s", "matrix")[0] == 0


@pytest.mark.parametrize(
    ("words", "step"),
    [
        (["-s", "build-x68"], "did you mean build-x86? nox -l lists all"),
        (["-s", "nothing"], "nox -l lists all"),
        (["--session=matrx"], "did you mean matrix? nox -l lists all"),
        (["-s", "publish", "a.whl"], "if it is for publish, put -- in front of it: nox -s publish -- a.whl"),
        (["-s", "compare", "a", "b"], "if it is for compare, put -- in front of it: nox -s compare -- a b"),
    ],
)
def test_a_session_that_is_not_there_is_a_wrong_command_line(copy: Copy, words: list[str], step: str) -> None:
    code, out, err = copy.run(*words)
    assert (code, out) == (UsageError.exit_code, "")
    first, where, following = err.splitlines()
    assert first.startswith("error: there is no session '")
    assert where == "  where: command line"
    assert following == f"  next:  {step}"


def test_what_follows_the_two_dashes_is_the_sessions(copy: Copy) -> None:
    code, _, err = copy.run("-s", "publish", "--", "nothere.whl")
    assert code == UnusableWheelError.exit_code
    assert "no session" not in err


def test_a_forgotten_option_is_explained_by_the_page(project_root: Path, copy: Copy) -> None:
    """nox ends before it reads the project's file, so the page repeats its line."""
    code, _, err = copy.run("-s", "build-x86", "--source", "0.32.0")
    assert code == 2
    line = err.splitlines()[-1]
    assert (
        line.endswith("nox: error: unrecognized arguments: --source")
        or "error: unrecognized arguments: --source" in line
    )
    page = (project_root / "docs" / "troubleshooting.md").read_text()
    assert "error: unrecognized arguments: --source" in page
    assert "nox -s build-x86 -- --source 0.32.0" in page
