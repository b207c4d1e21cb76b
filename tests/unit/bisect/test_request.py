"""What a bisection may be asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cpuwheels.bisect.request import check_options, make_question
from cpuwheels.config.options import BisectOptions
from cpuwheels.core.errors import BisectError, UsageError
from cpuwheels.fetch.git import Git
from cpuwheels.source.repository import Repository
from cpuwheels.source.revisions import Revision


def options(**given: Any) -> BisectOptions:
    return BisectOptions(good="v0.31.0", bad="main", **given)


@pytest.mark.parametrize(
    "given",
    [
        {"run": "true"},
        {"run": "A=1 python -c 'x'"},
        {"run": "$HOME/x"},
        {"parity": "a"},
        {"bench": "a"},
        {"serve": "opt"},
        {"serve": "opt", "slower": 1.3},
        {"serve": "opt", "regress": "slow"},
        {"prompt": "The capital of France is"},
        {"prompt": "x", "serve": "opt", "regress": "wrong-token"},
        {"unconfined": True, "requirements": False},
    ],
)
def test_one_way_to_judge_is_a_question(given: dict[str, Any]) -> None:
    check_options(options(**given))


@pytest.mark.parametrize("ends", [{"good": "2026-13-45"}, {"bad": "2026-02-30T10:00"}])
def test_a_date_that_there_is_not_is_refused_at_once(ends: dict[str, str]) -> None:
    with pytest.raises(BisectError, match=f"'{next(iter(ends.values()))}' is no date"):
        check_options(BisectOptions(**({"good": "v0.31.0", "bad": "main", "parity": "a"} | ends)))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"run": "true", "parity": "a"}, "2 ways to test"),
        ({"bench": "a", "jobs": 2}, "cannot be compared while others"),
        ({"serve": "opt", "slower": 1.3, "jobs": 2}, "cannot be compared while others"),
        ({"run": "true", "slower": 1.3}, "only speeds can be slower"),
        ({"serve": "not/there"}, "not/there is not the folder of a model"),
        ({"run": "if true"}, "the shell cannot read the command"),
        ({"run": "./not/there"}, "the command ./not/there is not there"),
        ({"run": "A=1 ./not/there 'x'"}, "the command ./not/there is not there"),
        ({"jobs": 2}, "a person is asked for one verdict after the other"),
        ({"prompt": "x", "jobs": 2}, "a person is asked for one verdict after the other"),
        ({"serve": "opt", "regress": "slow", "jobs": 2}, "cannot be compared while others are measured"),
        ({"prompt": " "}, "cannot be asked nothing"),
        ({"prompt": "x", "run": "true"}, "a text is asked of a server"),
        ({"prompt": "x", "serve": __file__}, "a text is asked of a server"),
        ({"prompt": "x", "serve": "bert"}, "bert answers no text"),
        ({"prompt": "x", "serve": "opt", "slower": 2.0}, "an answer has no speed"),
        ({"prompt": "x", "unconfined": True}, "only a command or a script is shown places of yours"),
        ({"run": "true", "regress": "slow"}, "--run finds no change of the kind 'slow'"),
    ],
)
def test_anything_else_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_options(options(**given))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"run": "true", "env": ("ABSENT",)}, "the variable ABSENT is not set"),
        ({"run": "true", "env": ("PYTHONPATH",)}, "PYTHONPATH would replace what is tested"),
        ({"parity": "a", "env": ("MINE",)}, "only a command or a script gets variables"),
        ({"serve": "opt", "env": ("MINE",)}, "only a command or a script gets variables"),
        ({"parity": "a", "allow_sdists": True}, "nothing is installed that could be a source distribution"),
        ({"run": "true", "requirements": False, "allow_sdists": True}, "nothing is installed that could be"),
    ],
)
def test_variables_and_source_distributions_are_for_commands(
    given: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "1")
    check_options(options(run="true", env=("MINE",), allow_sdists=True))
    with pytest.raises(UsageError, match=words):
        check_options(options(**given))


def test_a_program_that_cannot_be_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "check").write_text("#!/bin/sh\n")
    with pytest.raises(UsageError, match="cannot be run"):
        check_options(options(run=str(tmp_path / "check")))
    (tmp_path / "check").chmod(0o755)
    check_options(options(run=str(tmp_path / "check")))


def test_a_script_is_refused_unless_it_can_be_run_and_decides_alone(tmp_path: Path) -> None:
    script = tmp_path / "ask"
    script.write_text("#!/bin/sh\n")
    with pytest.raises(UsageError, match="neither a Python file nor executable"):
        check_options(options(serve=str(script)))
    script.chmod(0o755)
    check_options(options(serve=str(script)))
    with pytest.raises(UsageError, match="decides by its exit status"):
        check_options(options(serve=str(script), slower=1.5))


def test_another_script_is_another_question(tmp_path: Path) -> None:
    script, ends = tmp_path / "ask.py", [Revision(name, "hash", name * 40) for name in "ab"]
    keys = set()
    for text, seconds in (("1", 5.0), ("2", 5.0), ("2", 6.0)):
        script.write_text(text)
        given = options(serve=str(script), timeout=seconds)
        keys.add(make_question("x86", *ends, Repository(Git(tmp_path), "here"), given).key())
    assert len(keys) == 3


@pytest.mark.parametrize(
    ("given", "judge"),
    [
        ({"run": "true"}, {"run": "true"}),
        (
            {"run": "true", "timeout": 5.0, "requirements": False},
            {"run": "true", "timeout": 5.0, "requirements": "none"},
        ),
        (
            {"run": "true", "readable": (Path("/b c"), Path("/a")), "writable": (Path("/d"),), "unconfined": True},
            {"run": "true", "readable": "/a '/b c'", "writable": "/d", "unconfined": "yes"},
        ),
        (
            {"run": "true", "env": ("B", "A", "B"), "allow_sdists": True},
            {"run": "true", "env": "A B", "sdists": "allowed"},
        ),
        ({"parity": "a", "level": "full"}, {"parity": "a", "level": "full"}),
        ({"bench": "a"}, {"bench": "a", "slower": 1.2, "library": "_C"}),
        ({"serve": "opt"}, {"serve": "opt"}),
        ({"serve": "opt", "slower": 1.5}, {"serve": "opt", "slower": 1.5}),
        ({"bench": "a", "slower": 1.5}, {"bench": "a", "slower": 1.5, "library": "_C"}),
        ({}, {"verdicts": "by a person"}),
        (
            {"requirements": False, "regress": "crash", "unconfined": True},
            {"verdicts": "by a person", "requirements": "none", "regress": "crash", "unconfined": "yes"},
        ),
        ({"prompt": "x"}, {"serve": "qwen3", "prompt": "x", "verdicts": "by a person"}),
        (
            {"prompt": "x", "serve": "opt", "regress": "wrong-token"},
            {"serve": "opt", "prompt": "x", "regress": "wrong-token"},
        ),
        ({"run": "true", "regress": "error"}, {"run": "true"}),
        ({"run": "true", "regress": "success"}, {"run": "true", "regress": "success"}),
        ({"serve": "opt", "regress": "slow"}, {"serve": "opt", "slower": 1.2, "regress": "slow"}),
    ],
)
def test_a_question_has_all_that_the_verdicts_depend_on(tmp_path: Path, given: dict[str, Any], judge: Any) -> None:
    good, bad = (Revision(name, "hash", name * 40) for name in "ab")
    chosen = options(**given)
    question = make_question("x86", good, bad, Repository(Git(tmp_path), "here"), chosen)
    assert (question.good, question.bad, question.repository, question.judge) == ("a" * 40, "b" * 40, "here", judge)
    other = options(**given, memory="3G", repo=tmp_path, jobs=1, out=tmp_path)
    assert make_question("x86", good, bad, Repository(Git(tmp_path), "here"), other) == question
    strict = options(**given, locked=True)
    assert make_question("x86", good, bad, Repository(Git(tmp_path), "here"), strict) != question
