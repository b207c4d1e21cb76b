"""The verdict on what a server answers to a text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.bisect.dialogue import Answer
from cpuwheels.bisect.person import Person
from cpuwheels.bisect.predicates import Judgement
from cpuwheels.bisect.prompt_predicate import ANSWER, PromptAnswer, PromptPredicate
from cpuwheels.bisect.search import Verdict
from cpuwheels.config.matrix import Matrix, load_matrix
from cpuwheels.config.paths import Paths
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import BisectError
from cpuwheels.pipeline.serve_script import ScriptRequest, ScriptResult
from cpuwheels.verification.serving.setting import RESOURCES

GOOD, OTHER = "a" * 40, "b" * 40
RIGHT = json.dumps({"text": " Paris.", "tokens": [1, 2, 3]})


class Servers:
    """Stands for servers, and for a person who sees what they answer.

    Attributes:
        answers: What the script for each wheel prints last, or what became of it.
        asked: The wheels that were served, with the request.
        shown: What the person was shown.
        verdicts: What they answer.
        waits: How often other work could be done.
    """

    def __init__(self, folder: Path, matrix: Matrix, reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.matrix, self.reporter = folder, matrix, reporter
        self.answers: dict[str, str | ScriptResult] = {GOOD: RIGHT, OTHER: RIGHT}
        self.asked: list[tuple[str, ScriptRequest]] = []
        self.shown: list[str] = []
        self.verdicts: list[str] = []
        self.waits = 0
        monkeypatch.setattr("cpuwheels.pipeline.serve_script.serve_script", self._serve)

    def _serve(self, *arguments: Any) -> ScriptResult:
        wheel, request = arguments[3:5]
        self.asked.append((wheel.stem, request))
        said = self.answers[wheel.stem]
        return said if isinstance(said, ScriptResult) else ScriptResult(0, "", said)

    def show(self, text: str) -> None:
        self.shown.append(text)

    show_whole = show

    def ask(self, _about: str, _words: object) -> Answer:
        return Answer(self.verdicts.pop(0))

    def judge(self, commit: str, regress: Any = None, prompt: str = "The capital of France is") -> Judgement:
        person = None if regress else Person(self, {})  # type: ignore[arg-type]
        good = (GOOD, lambda _: self.folder / f"{GOOD}.whl")
        predicate = PromptPredicate(prompt, "qwen3", good, self.paths, self.matrix, "x86", regress, person)
        folder = self.paths(commit).dist
        return predicate(self.folder / f"{commit}.whl", commit, folder, self.reporter, self._wait)

    def _wait(self) -> None:
        self.waits += 1

    def paths(self, commit: str) -> Paths:
        return Paths(self.folder, self.folder, self.folder / commit[:12])


@pytest.fixture
def servers(tmp_path: Path, project_root: Path, reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> Servers:
    return Servers(tmp_path, load_matrix(project_root), reporter, monkeypatch)


def test_the_same_tokens_are_good(servers: Servers) -> None:
    assert servers.judge(GOOD, "wrong-token").verdict is Verdict.GOOD
    found = servers.judge(OTHER, "wrong-token")
    assert found == Judgement(Verdict.GOOD, "it answers 'Paris.', as the good end does")
    assert [wheel for wheel, _ in servers.asked] == [GOOD, OTHER]
    request = servers.asked[0][1]
    assert request.script == RESOURCES / "ask_prompt.py"
    assert (request.env, request.model) == ({"CPUWHEELS_PROMPT": "The capital of France is"}, "qwen3")
    assert request.places is not None
    assert request.places.folder == RESOURCES, "nothing of the user's is shown to it"
    assert servers.waits == 2


@pytest.mark.parametrize(
    ("tokens", "where"), [([1, 9, 3], "token 2 of 3"), ([1, 2], "token 3 of 2"), ([1, 2, 3, 4], "token 4 of 4")]
)
def test_another_token_is_bad(servers: Servers, tokens: list[int], where: str) -> None:
    servers.judge(GOOD, "wrong-token")
    servers.answers[OTHER] = json.dumps({"text": " Lyon\x1b.", "tokens": tokens})
    found = servers.judge(OTHER, "wrong-token")
    assert found == Judgement(Verdict.BAD, f"{where} differs from the good end's: 'Lyon\\\\x1b.'")


def test_the_good_end_is_asked_again_if_its_answer_is_gone_or_is_to_another_text(servers: Servers) -> None:
    assert servers.judge(OTHER, "wrong-token").verdict is Verdict.GOOD
    assert [wheel for wheel, _ in servers.asked] == [OTHER, GOOD]
    servers.judge(OTHER, "wrong-token")
    assert [wheel for wheel, _ in servers.asked[2:]] == [OTHER]
    servers.judge(OTHER, "wrong-token", prompt="Another text")
    assert [wheel for wheel, _ in servers.asked[3:]] == [OTHER, GOOD]
    (servers.paths(GOOD).dist / ANSWER).write_text("{")
    servers.judge(OTHER, "wrong-token", prompt="Another text")
    assert [wheel for wheel, _ in servers.asked[5:]] == [OTHER, GOOD]


def test_a_good_end_that_does_not_answer_any_more_stops_the_search(servers: Servers) -> None:
    servers.answers[GOOD] = ScriptResult(None, "the server did not start", "")
    with pytest.raises(BisectError, match="does not answer any more: the server did not start"):
        servers.judge(OTHER, "wrong-token")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (ScriptResult(None, "the server died", ""), "the server died"),
        (ScriptResult(1, "", "openai.NotFoundError: 404"), "the request failed: openai.NotFoundError: 404"),
        (ScriptResult(0, "", "no JSON"), "the server's answer has no tokens: no JSON"),
        (ScriptResult(0, "", '{"text": "x", "tokens": null}'), "the server's answer has no tokens"),
    ],
)
@pytest.mark.parametrize(("regress", "verdict"), [("error", "bad"), ("crash", "bad"), ("wrong-token", "skip")])
def test_no_answer_is_a_fault_or_no_verdict(
    servers: Servers, said: ScriptResult, reason: str, regress: str, verdict: str
) -> None:
    servers.answers[OTHER] = said
    found = servers.judge(OTHER, regress)
    assert found.verdict == verdict
    assert found.reason.startswith(reason)


def test_for_a_crash_any_answer_is_good(servers: Servers) -> None:
    servers.answers[OTHER] = json.dumps({"text": "else", "tokens": [7]})
    assert servers.judge(OTHER, "crash") == Judgement(Verdict.GOOD, "it answers 'else'")
    assert servers.judge(OTHER, "error").verdict is Verdict.BAD


def test_a_person_sees_both_answers_and_decides(servers: Servers) -> None:
    servers.verdicts = ["good", "bad"]
    assert servers.judge(GOOD).verdict is Verdict.GOOD
    assert servers.shown == ["aaaaaaaaa answers:", " Paris."]
    servers.shown.clear()
    servers.answers[OTHER] = json.dumps({"text": " Lyon.", "tokens": [1, 9]})
    assert servers.judge(OTHER).verdict is Verdict.BAD
    assert servers.shown == [
        "bbbbbbbbb answers:",
        " Lyon.",
        "The good end answers otherwise from token 2 of 2 on:",
        " Paris.",
    ]


def test_retry_serves_again(servers: Servers) -> None:
    servers.verdicts = ["good", "retry", "skip"]
    servers.judge(GOOD)
    assert servers.judge(OTHER).verdict is Verdict.SKIP
    assert [wheel for wheel, _ in servers.asked] == [GOOD, OTHER, OTHER]
    assert servers.shown.count("The good end answers the same.") == 2


def test_a_person_is_told_that_nothing_is_answered(servers: Servers) -> None:
    servers.answers[OTHER] = ScriptResult(None, "the server died", "")
    servers.verdicts = ["bad"]
    assert servers.judge(OTHER).verdict is Verdict.BAD
    assert servers.shown == ["bbbbbbbbb does not answer: the server died"]


def test_the_same_answer_has_no_difference() -> None:
    one = PromptAnswer(prompt="x", model="m", text="a", tokens=(1, 2))
    assert one.difference(one) == ""
