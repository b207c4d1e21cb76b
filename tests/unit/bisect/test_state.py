"""A bisection's file, and the logs it replays."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from cpuwheels.bisect.git_log import git_log, replayed
from cpuwheels.bisect.predicates import verdict_of
from cpuwheels.bisect.search import Verdict
from cpuwheels.bisect.state import RESULT, Probe, Question, State, alone, read_state, unfinished, write_state
from cpuwheels.core.errors import BisectError
from sample_source import commit, git, write_tree

if TYPE_CHECKING:
    from pathlib import Path

A, B, C = ("a" * 40, "b" * 40, "c" * 40)
QUESTION = Question(target="x86", good=A, bad=B, first_parent=True, repository="here", judge={"run": "true"})


def probe(name: str, verdict: Verdict) -> Probe:
    return Probe(commit=name, verdict=verdict, reason="exit status 0", seconds=1.5, wheel_from="build")


def test_nothing_is_known_at_first(tmp_path: Path) -> None:
    assert read_state(tmp_path / "new", QUESTION) == State(question=QUESTION)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    state = State(question=QUESTION).with_probe(probe(A, Verdict.SKIP)).with_probe(probe(A, Verdict.GOOD))
    write_state(tmp_path, state)
    assert read_state(tmp_path, QUESTION) == state
    assert state.verdicts == {A: Verdict.GOOD}
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.parametrize(
    "change", [{"bad": C}, {"first_parent": False}, {"judge": {"run": "false"}}, {"options": ("x",)}]
)
def test_another_question_is_another_bisection(tmp_path: Path, change: dict[str, object]) -> None:
    other = QUESTION.model_copy(update=change)
    assert other.key() != QUESTION.key()
    write_state(tmp_path, State(question=QUESTION))
    with pytest.raises(BisectError, match="the folder is of another bisection"):
        read_state(tmp_path, other)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2}', '{"format": 1, "question": {}}'])
def test_a_damaged_file_is_told_and_stays(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(BisectError, match="cannot be read"):
        read_state(tmp_path, QUESTION)
    assert (tmp_path / "state.json").read_text() == text


def test_only_one_run_at_a_time(tmp_path: Path) -> None:
    with alone(tmp_path / "new"), pytest.raises(BisectError, match="already running"), alone(tmp_path / "new"):
        pytest.fail("two runs at one bisection")
    with alone(tmp_path / "new"):
        pass


def test_verdicts_of_another_bisection_are_replayed(tmp_path: Path) -> None:
    write_state(tmp_path, State(question=QUESTION).with_probe(probe(A, Verdict.SKIP)).with_probe(probe(B, Verdict.BAD)))
    assert replayed(tmp_path / "state.json") == {A: Verdict.SKIP, B: Verdict.BAD}


@pytest.mark.usefixtures("plain_git")
def test_gits_own_log_is_read_and_written(tmp_path: Path) -> None:
    folder = write_tree(tmp_path / "vllm")
    names = [commit(folder, str(number)) for number in range(8)]
    git(folder, "bisect", "start", names[7], names[0])
    git(folder, "bisect", "good", git(folder, "rev-parse", "HEAD"))
    skipped = git(folder, "rev-parse", "HEAD")
    git(folder, "bisect", "skip")
    (tmp_path / "log").write_text(git(folder, "bisect", "log"))
    found = replayed(tmp_path / "log")
    assert found == {names[3]: Verdict.GOOD, skipped: Verdict.SKIP}
    question = QUESTION.model_copy(update={"good": names[0], "bad": names[7]})
    state = State(question=question).with_probe(probe(names[2], Verdict.GOOD)).with_probe(probe(names[4], Verdict.BAD))
    (tmp_path / "own").write_text(git_log(state, {names[2]: "two"}))
    git(folder, "bisect", "replay", str(tmp_path / "own"))
    assert git(folder, "rev-parse", "HEAD") == names[3]
    assert f"# good: [{names[2]}] two" in (tmp_path / "own").read_text()


@pytest.mark.parametrize("text", ["", "git bisect good main\n", "{}", "\xff"])
def test_what_is_no_log(tmp_path: Path, text: str) -> None:
    (tmp_path / "log").write_bytes(text.encode("latin-1"))
    with pytest.raises(BisectError):
        replayed(tmp_path / "log")


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BisectError, match="the log cannot be read"):
        replayed(tmp_path / "log")


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("true", "good"),
        ("false", "bad"),
        ("exit 2", "bad"),
        ("exit 125", "skip"),
        ("exit 124", "bad"),
        ("exit 127", "bad"),
    ],
)
def test_exit_codes_are_those_of_git_bisect_run(command: str, verdict: str) -> None:
    assert verdict_of(subprocess.run(["sh", "-c", command], check=False).returncode, command) is Verdict(verdict)


@pytest.mark.parametrize(
    ("command", "words"),
    [("kill -SEGV $$", "SIGSEGV"), ("sh -c 'kill -SEGV $$'; exit $?", "139"), ("exit 128", "128"), ("exit 255", "255")],
)
def test_any_other_end_is_no_verdict(command: str, words: str) -> None:
    with pytest.raises(BisectError, match=words) as raised:
        verdict_of(subprocess.run(["bash", "-c", command], check=False).returncode, command)
    assert raised.value.where == command
    assert "|| exit 1" in raised.value.next_step


@pytest.mark.parametrize(
    ("change", "verdict", "ended", "goes_on"),
    [
        ({}, Verdict.BAD, False, True),
        ({"bad": C}, Verdict.BAD, False, True),
        ({"bad": C}, Verdict.BAD, True, False),
        ({"bad": C}, Verdict.GOOD, False, False),
        ({"bad": C}, None, False, False),
        ({"good": C}, Verdict.BAD, False, False),
        ({"judge": {"run": "false"}}, Verdict.BAD, False, False),
    ],
)
def test_a_bisection_up_to_an_earlier_end_goes_on(
    tmp_path: Path, change: dict[str, object], verdict: Verdict | None, *, ended: bool, goes_on: bool
) -> None:
    question = QUESTION.model_copy(update=change)
    state = State(question=question)
    if verdict:
        state = state.with_probe(probe(question.bad, verdict))
    write_state(tmp_path / "one", state)
    if ended:
        (tmp_path / "one" / RESULT).write_text("{}")
    assert unfinished([tmp_path / "one", tmp_path / "absent"], QUESTION) == (state if goes_on else None)


def test_of_several_the_last_goes_on_and_a_damaged_one_does_not(tmp_path: Path) -> None:
    states = {}
    for number, end in enumerate((C, "d" * 40, B)):
        states[end] = State(question=QUESTION.model_copy(update={"bad": end})).with_probe(probe(end, Verdict.BAD))
        write_state(tmp_path / end, states[end])
        os.utime(tmp_path / end / "state.json", (1000 - number % 2, 1000 - number % 2))
    os.utime(tmp_path / B / "state.json", (2000, 2000))
    assert unfinished(sorted(tmp_path.iterdir()), QUESTION) == states[B]
    (tmp_path / B / "state.json").write_text("{")
    assert unfinished(sorted(tmp_path.iterdir()), QUESTION) == states[C]
