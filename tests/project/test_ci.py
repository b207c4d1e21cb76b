"""CI's steps in a small repository, with a nox that answers as it is told: order, selection, and the table."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from changes import Change, changed_files
from layout import HELPERS, ROOT, TESTS

pytestmark = pytest.mark.usefixtures("plain_git")

NOX = """\
#!/bin/sh
echo "$*" >> "{calls}"
case "$*" in *"{failing}") exit 3;; esac
"""
ALWAYS = [
    "-s lint",
    "-s types",
    "-s docs -- --test",
    "-s tests -- --group unit",
    "-s tests -- --group unit:campaign",
    "-s build-x86",
    "-s parity-x86 -- --level smoke",
    "-s serve-x86",
    "-s tests -- --group wheel",
    "-s tests -- --group core",
    "-s tests -- --group core:campaign-source",
    "-s tests -- --group core:sandbox",
]


@dataclass(frozen=True)
class Repository:
    """A repository with this project's steps and groups.

    Attributes:
        root: Its folder.
        bin: Where its nox is.
    """

    root: Path
    bin: Path

    def git(self, *words: str | Path) -> str:
        """Run git and return what it prints."""
        return subprocess.run(
            ["git", "-C", self.root, "-c", "user.name=t", "-c", "user.email=t@example.invalid", *words],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    def commit(self, *files: str) -> str:
        """Change files, commit them, and return the commit's hash."""
        for name in files:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            with (self.root / name).open("a") as stream:
                stream.write("more\n")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "change")
        return self.git("rev-parse", "HEAD")

    def run(self, *words: str, failing: str = "nothing", summary: Path | None = None) -> tuple[int, list[str], str]:
        """Run the steps; return the exit code, what nox was asked for, and the table."""
        calls = self.bin / "calls"
        calls.write_text("")
        nox = self.bin / "nox"
        nox.write_text(NOX.format(calls=calls, failing=failing))
        nox.chmod(0o755)
        env = os.environ | {"PATH": f"{self.bin}:{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": str(summary or "")}
        command = [sys.executable, self.root / ".ci" / "steps.py", *words]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, calls.read_text().splitlines(), done.stdout[done.stdout.find("| step") :].strip()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    root = tmp_path / "project"
    (root / "tests" / "helpers").mkdir(parents=True)
    shutil.copytree(ROOT / ".ci", root / ".ci")
    shutil.copy(TESTS / "groups.toml", root / "tests")
    for name in ("changes.py", "foreground.py", "groups.py", "layout.py"):
        shutil.copy(HELPERS / name, root / "tests" / "helpers")
    (root / ".gitignore").write_text("__pycache__/\n")
    (tmp_path / "bin").mkdir()
    made = Repository(root, tmp_path / "bin")
    made.git("init", "--quiet", "--initial-branch=main")
    made.commit("README.md")
    return made


def test_the_groups_of_the_change_come_after_what_every_change_has_to_pass(
    repository: Repository, tmp_path: Path
) -> None:
    repository.git("checkout", "--quiet", "-b", "work")
    repository.commit("src/cpuwheels/toolchain/zig.py")
    code, calls, table = repository.run(summary=tmp_path / "summary.md")
    assert code == 0
    assert calls == [*ALWAYS, *(f"-s tests -- --group full:{name}" for name in ("macos", "locked"))]
    rows = {line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:]] for line in table.splitlines()}
    assert rows["lint"] == ["0.0", "passed", "every change", ""]
    assert rows["full:macos"] == ["0.0", "passed", "src/cpuwheels/toolchain/zig.py has changed", ""]
    assert rows["soak:kills"][1:3] == [
        "not selected",
        f"nothing that it is for has changed since {repository.git('rev-parse', 'main')[:12]}",
    ]
    assert rows["all"] == ["0.0", "passed", "", ""]
    assert (tmp_path / "summary.md").read_text().strip() == table


def test_a_failure_ends_the_run_with_its_code_and_the_rest_is_in_the_table(repository: Repository) -> None:
    code, calls, table = repository.run(failing="--group unit")
    assert code == 3
    assert calls == ALWAYS[:4]
    assert "| unit | 0.0 | FAILED | every change |" in table
    assert "| core | | not run | every change |" in table.replace("|  |", "| |")
    assert "| all | 0.0 | FAILED | |" in table


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_step_with_all_that_it_started(repository: Repository, number: signal.Signals) -> None:
    calls = repository.bin / "calls"
    nox = repository.bin / "nox"
    inner = f"echo $PPID $$ >> {calls}; exec sleep 1000"
    nox.write_text(f"#!/bin/sh\nsh -c '{inner}'\necho more >> {calls}\n")
    nox.chmod(0o755)
    env = os.environ | {"PATH": f"{repository.bin}:{os.environ['PATH']}"}
    # Whoever runs the tests in the background may have it ignore SIGINT.
    command = ["env", "--default-signal=INT,HUP", sys.executable, repository.root / ".ci" / "steps.py"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True) as steps:
        started = [int(word) for word in wait_for_text(calls).split()]
        leader = started[0]
        try:
            assert set(started) <= set(group_members(leader))
            steps.send_signal(number)
            table, _ = steps.communicate(timeout=60)
            left = group_members(leader)
        finally:
            steps.kill()
            for one in started:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one, signal.SIGKILL)
    assert steps.returncode == 128 + number
    assert left == []
    assert len(calls.read_text().splitlines()) == 1
    assert "| lint | 0.0 | FAILED | every change |" in table


def test_what_does_not_end_by_the_signal_is_killed(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    stubborn = f"trap '' TERM; sleep 1000 & echo $$ > {ready}; wait"
    program = f"import sys; sys.path.insert(0, {str(HELPERS)!r}); import foreground, pathlib\n"
    program += f"sys.exit(foreground.run_group(['sh', '-c', {stubborn!r}], pathlib.Path({str(tmp_path)!r}), grace=0.3))"
    with subprocess.Popen([sys.executable, "-c", program]) as runner:
        leader = int(wait_for_text(ready))
        runner.terminate()
        assert runner.wait(timeout=60) == 128 + signal.SIGTERM
    assert group_members(leader) == []


def wait_for_text(path: Path) -> str:
    """Return a file's first lines as soon as they are there."""
    for _ in range(600):
        if path.is_file() and (text := path.read_text()).endswith("\n"):
            return text
        time.sleep(0.1)
    pytest.fail(f"{path} was not written")


def group_members(leader: int) -> list[int]:
    """Return the processes of a group that have not ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:  # it has ended
            continue
        if int(group) == leader and state != "Z":
            found.append(int(stat.parent.name))
    return found


def test_a_plan_runs_nothing(repository: Repository) -> None:
    repository.commit("benchmarks/buildbench/edit.py")
    code, calls, table = repository.run("--plan")
    assert (code, calls) == (0, [])
    assert "| full:bench |  | not run | benchmarks/buildbench/edit.py has changed |" in table


def test_without_history_nothing_more_is_selected_and_each_group_says_so(
    repository: Repository, tmp_path: Path
) -> None:
    repository.commit("src/cpuwheels/toolchain/zig.py")
    shallow = tmp_path / "shallow"
    repository.git("clone", "--quiet", "--depth=1", f"file://{repository.root}", shallow)
    code, calls, table = Repository(shallow, repository.bin).run()
    assert code == 0
    assert calls == ALWAYS
    unknown = "the change is not known: there is no main and no earlier commit in this clone"
    assert f"| full:macos | | not selected | {unknown} |" in table
    assert table.count(unknown) + table.count("no change selects it") == table.count("not selected") > 10


def test_a_change_begins_where_the_branch_left_main(repository: Repository) -> None:
    left = repository.git("rev-parse", "HEAD")
    repository.commit("landed.py")
    repository.git("checkout", "--quiet", "-b", "work", left)
    repository.commit("one.py")
    repository.commit("two.py")
    (repository.root / "new é.py").write_text("")
    (repository.root / "README.md").write_text("not committed yet\n")
    assert changed_files(repository.root) == Change(frozenset({"one.py", "two.py", "README.md", "new é.py"}), left[:12])


def test_on_main_the_change_is_the_last_commit(repository: Repository) -> None:
    before = repository.git("rev-parse", "HEAD")
    first = repository.commit("one.py")
    last = repository.commit("two.py")
    assert changed_files(repository.root) == Change(frozenset({"two.py"}), first[:12])
    assert changed_files(repository.root, before) == Change(frozenset({"one.py", "two.py"}), before[:12])
    assert changed_files(repository.root, last) == Change(frozenset({"two.py"}), first[:12])


@pytest.mark.parametrize("base", ["0" * 40, "no-such-branch"])
def test_a_base_that_is_not_there_is_no_change(repository: Repository, base: str) -> None:
    repository.commit("one.py")
    change = changed_files(repository.root, base)
    assert change == Change(None, f"there is no commit '{base}' in this clone")


def test_a_moved_file_has_both_its_names(repository: Repository) -> None:
    repository.git("mv", "README.md", "READ.md")
    change = changed_files(repository.root, "HEAD")
    assert change.files is None  # the first commit has none before it
    repository.git("commit", "--quiet", "--message", "moved")
    assert changed_files(repository.root).files == {"README.md", "READ.md"}
