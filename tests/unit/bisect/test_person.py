"""The verdict of a person."""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

import asked_bisection
from cpuwheels.bisect.dialogue import Answer
from cpuwheels.bisect.person import Person, PersonPredicate
from cpuwheels.bisect.predicates import Installed, Judgement
from cpuwheels.bisect.search import Verdict
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import StoppedError
from sample_source import commit, write_tree
from terminal import Terminal

GOOD, BAD, BETWEEN = "a" * 40, "b" * 40, "c" * 40


@dataclass
class Script:
    """A dialogue whose answers are known beforehand.

    Attributes:
        answers: They, in order; none left is the end of the input.
        shown: What was printed.
        asked: The questions.
        at_question: Called at each question.
    """

    answers: list[str]
    shown: list[str] = field(default_factory=list)
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    at_question: Callable[[], None] = lambda: None

    def show(self, text: str) -> None:
        self.shown.append(text)

    show_whole = show

    def ask(self, about: str, words: Sequence[str]) -> Answer:
        self.asked.append((about, tuple(words)))
        self.at_question()
        if not self.answers:
            raise StoppedError("stopped")
        word, _, note = self.answers.pop(0).partition(" ")
        return Answer(word, note)


def person(*answers: str, regress: str | None = None) -> Person:
    ends = {GOOD: Verdict.GOOD, BAD: Verdict.BAD}
    return Person(Script(list(answers)), ends, regress)  # type: ignore[arg-type]


def script_of(one: Person) -> Script:
    assert isinstance(one.dialogue, Script)
    return one.dialogue


@pytest.mark.parametrize(
    ("answer", "judgement"),
    [
        ("good", Judgement(Verdict.GOOD, "a person's verdict")),
        ("bad it prints nothing", Judgement(Verdict.BAD, "it prints nothing")),
        ("skip", Judgement(Verdict.SKIP, "a person's verdict")),
        ("retry", None),
    ],
)
def test_the_answer_is_the_verdict_and_what_follows_the_reason(answer: str, judgement: Judgement | None) -> None:
    one = person(answer)
    assert one.judge(BETWEEN) == judgement
    assert script_of(one).asked == [("Verdict on ccccccccc", ("good", "bad", "skip", "retry"))]


def test_the_question_says_what_a_bad_commit_is() -> None:
    one = person("bad", regress="success")
    one.judge(BETWEEN)
    assert script_of(one).asked[0][0] == "Verdict on ccccccccc (bad: it succeeds)"


@pytest.mark.parametrize(
    ("commit", "answers", "verdict", "asked"),
    [
        (GOOD, ["good"], "good", 1),
        (GOOD, ["bad", "good"], "good", 2),
        (GOOD, ["bad", "bad"], "bad", 2),
        (BAD, ["skip", "bad"], "bad", 2),
        (BAD, ["good", "good"], "good", 2),
        (GOOD, ["retry"], None, 1),
        (GOOD, ["bad", "retry"], None, 2),
    ],
)
def test_a_verdict_against_an_end_is_asked_for_twice(
    commit: str, answers: list[str], verdict: str | None, asked: int
) -> None:
    one = person(*answers)
    found = one.judge(commit)
    assert (found and found.verdict) == verdict
    assert len(script_of(one).asked) == asked
    said = "--good" if commit == GOOD else "--bad"
    assert [said in text for text in script_of(one).shown] == [True] * (asked - 1)


@pytest.mark.parametrize(("answer", "verdict"), [("skip", Verdict.SKIP), ("retry", None)])
def test_without_a_wheel_skipping_is_offered_with_the_reason(answer: str, verdict: Verdict | None) -> None:
    one = person(answer)
    found = one.judge_without_wheel(BETWEEN, "ops.cpp.o could not be made", Path("/x/probe.log"))
    assert (found and found.verdict) == verdict
    assert found is None or found.reason == "no wheel: ops.cpp.o could not be made"
    assert script_of(one).asked == [("What now", ("skip", "retry"))]
    assert "ops.cpp.o could not be made" in script_of(one).shown[0]
    assert script_of(one).shown[1] == "/x/probe.log"


class Tried:
    """A predicate that asks a person, in environments that cost nothing."""

    def __init__(self, folder: Path, one: Person, named: Sequence[str] = ()) -> None:
        self.folder, self.installed, self.waits = folder, 0, 0
        environ = {"PATH": "/usr/bin:/bin", "MINE": "kept", **dict.fromkeys(named, "secret")}
        (folder / "here").mkdir()
        self.predicate = PersonPredicate(one, self._install, environ, named, folder / "here")
        self.commit = BETWEEN

    def _install(self, wheel: Path, folder: Path, _reporter: Reporter) -> Installed:
        assert wheel.name == "a.whl"
        self.installed += 1
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        return Installed(folder / "bin" / "python", {"ONEDNN_MAX_CPU_ISA": "AVX2"})

    def judge(self, reporter: Reporter) -> Judgement:
        def waiting() -> None:
            self.waits += 1

        probe = self.folder / "probe"
        return self.predicate(self.folder / "a.whl", self.commit, probe, reporter, waiting)


def test_the_line_that_is_printed_runs_in_the_environment(tmp_path: Path, reporter: Reporter) -> None:
    one = person("bad")
    tried = Tried(tmp_path, one)
    seen: list[str] = []

    def use() -> None:
        (line,) = [text for text in script_of(one).shown if text.endswith(" python")]
        (script, _) = shlex.split(line)
        shell = [script, "sh", "-c", 'echo "$CPUWHEELS_COMMIT $MINE $ONEDNN_MAX_CPU_ISA $PATH $UNKNOWN"; pwd']
        seen.append(subprocess.run(shell, check=True, capture_output=True, text=True, cwd="/").stdout)

    script_of(one).at_question = use
    assert tried.judge(reporter) == Judgement(Verdict.BAD, "a person's verdict")
    place = tmp_path / "probe" / "venv" / "bin"
    assert seen == [f"{BETWEEN} kept AVX2 {place}:/usr/bin:/bin \n{tmp_path / 'here'}\n"]
    assert (tried.installed, tried.waits) == (1, 1)
    assert not (tmp_path / "probe" / "use").exists()


@pytest.mark.parametrize(
    ("commit", "called"), [(GOOD, "aaaaaaaaa, the good end,"), (BAD, "bbbbbbbbb, the bad end,"), (BETWEEN, "ccccccccc")]
)
def test_a_person_is_told_which_commit_is_an_end(tmp_path: Path, reporter: Reporter, commit: str, called: str) -> None:
    one = person("bad", "bad")
    tried = Tried(tmp_path, one)
    tried.commit = commit
    tried.judge(reporter)
    assert script_of(one).shown[0] == f"The environment of {called} is ready. Use it in another terminal:"


def test_retry_makes_the_environment_anew(tmp_path: Path, reporter: Reporter) -> None:
    tried = Tried(tmp_path, person("retry", "retry", "good"))
    assert tried.judge(reporter).verdict is Verdict.GOOD
    assert (tried.installed, tried.waits) == (3, 3)


def test_quit_leaves_no_script_behind(tmp_path: Path, reporter: Reporter, story: io.StringIO) -> None:
    tried = Tried(tmp_path, person())
    with pytest.raises(StoppedError):
        tried.judge(reporter)
    assert list((tmp_path / "probe").glob("use*")) == []
    assert "environment" in story.getvalue()


QUESTION = r"Verdict on ([0-9a-f]{9}): good, bad, skip, retry or quit\?"
COMMITS, GUILTY = 6, 4


class Bisected:
    """A bisection at terminals, one after the other."""

    def __init__(self, folder: Path, root: Path) -> None:
        tree = write_tree(folder / "vllm")
        self.commits = [commit(tree, "release")]
        for number in range(1, COMMITS + 1):
            (tree / "vllm" / f"m{number}.py").write_text("")
            self.commits.append(commit(tree, f"change {number}"))
        self.out = folder / "out"
        places = ["--root", str(root), "--cache", str(folder / "cache"), "--dist", str(folder / "dist")]
        ends = ["--repo", str(tree), "--good", self.commits[0], "--out", str(self.out)]
        program = [sys.executable, asked_bisection.__file__]
        self.command = [*program, *places, "bisect", "--no-requirements", *ends]
        self.folder = folder / "here"
        self.folder.mkdir()

    def start(self, columns: int = 60) -> Terminal:
        return Terminal(self.command, cwd=self.folder, columns=columns)

    def verdict(self, short: str) -> str:
        (number,) = [number for number, name in enumerate(self.commits) if name.startswith(short)]
        return "bad" if number >= GUILTY else "good"

    @property
    def verdicts(self) -> list[str]:
        state = self.out / "state.json"
        return [probe["verdict"] for probe in json.loads(state.read_text())["probes"]] if state.exists() else []


@pytest.fixture
def bisected(tmp_path: Path, project_root: Path) -> Bisected:
    return Bisected(tmp_path, project_root)


def sleeping(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Return everything that a program has started, as soon as it makes a wheel in advance."""
    while True:
        found = psutil.Process(process.pid).children(recursive=True)
        if any(one.name() == "sleep" for one in found):
            return found


@pytest.mark.usefixtures("plain_git")
def test_stopped_at_a_terminal_it_goes_on_and_finds_the_commit(bisected: Bisected) -> None:
    """At first the wheel that is made in advance is needed and not finished."""
    (bisected.folder / asked_bisection.LONG).touch()
    with bisected.start() as terminal:
        assert bisected.commits[0].startswith(terminal.wait_for(QUESTION)[1])
        terminal.type("good\n")
        started = sleeping(terminal.process)
        terminal.wait_for("wheel:")
        terminal.type("\x03")
        assert terminal.end() == 130
        assert "run the same command again" in terminal.screen
        assert not psutil.wait_procs(started, 30)[1]
    assert bisected.verdicts == ["good"]
    (bisected.folder / asked_bisection.LONG).unlink()
    with bisected.start() as terminal:
        terminal.wait_for("going on; tested before: 1 commit")
        terminal.wait_for(QUESTION)
        terminal.type("quit\n")
        assert terminal.end() == 130
    assert bisected.verdicts == ["good"]
    with bisected.start() as terminal:
        while short := terminal.wait_for(f"{QUESTION}|first bad commit")[1]:
            line = re.findall(r"^ {4}(\S+) python$", terminal.screen, re.MULTILINE)[-1]
            assert subprocess.run([line, "sh", "-c", "echo $CPUWHEELS_COMMIT"], check=True, capture_output=True).stdout
            terminal.type(f"{bisected.verdict(short)}\n")
        assert terminal.end() == 0
        assert "Traceback" not in terminal.screen
    result = json.loads((bisected.out / "result.json").read_text())
    assert result["first_bad"] == bisected.commits[GUILTY]
    assert (bisected.out / "issue.md").read_text().startswith(f"{bisected.commits[GUILTY]} `change {GUILTY}` is the")


@pytest.mark.usefixtures("plain_git")
def test_killed_at_a_question_nothing_is_left_of_what_was_being_made(bisected: Bisected) -> None:
    (bisected.folder / asked_bisection.LONG).touch()
    with bisected.start(120) as terminal:
        terminal.wait_for(QUESTION)
        started = sleeping(terminal.process)
        terminal.process.kill()
        terminal.process.wait()
        assert not psutil.wait_procs(started, 60)[1]
    assert bisected.verdicts == []
    with bisected.start(120) as terminal:
        terminal.wait_for(QUESTION)
        terminal.type("\x04")
        assert terminal.end() == 130


@pytest.mark.usefixtures("plain_git")
def test_without_a_terminal_it_ends_with_a_message(bisected: Bisected) -> None:
    done = subprocess.run(
        bisected.command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, cwd=bisected.folder
    )
    assert done.returncode == 2
    assert "nobody can be asked for a verdict: standard input and standard error are no terminal" in done.stderr
    assert "a command with --run" in done.stderr
    assert not bisected.out.exists()
