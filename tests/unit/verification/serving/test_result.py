from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.core.errors import ServeError
from cpuwheels.verification.serving.result import Answer, Case, Exchange, Question, Served, require_served

ASKED = Question(kind="completion", text="x", prompt=(5, 6), answer=(1, 2, 3), lead=0.2)


def exchange(answer: tuple[int, ...] = (1, 2, 3), prompt: tuple[int, ...] = (5, 6)) -> Exchange:
    return Exchange(question=ASKED, answer=Answer(prompt=prompt, answer=answer, text="?"))


def case(*exchanges: Exchange, failure: str = "", started: float | None = 30.0) -> Case:
    return Case(
        model="opt",
        dtype="bfloat16",
        library="_C",
        wanted="",
        started=started,
        seconds=40.0,
        exchanges=exchanges,
        failure=failure,
        log="serve-opt.log",
    )


def served(*cases: Case) -> Served:
    return Served(
        wheel="vllm.whl",
        sha256="0" * 64,
        version="0.32.0+cpu",
        torch="2.13.0+cpu",
        python="3.11",
        machine="a CPU",
        requirements="locks/serve/x86-0.32.0.txt",
        requirements_sha256="0" * 64,
        lacks=("torchvision",),
        moved=("triton==3.8.0+cpu",),
        memory_utilization=0.2,
        began="2026-11-24T00:00:00+00:00",
        seconds=60.0,
        cases=cases,
    )


def test_equal_tokens_are_right() -> None:
    assert case(exchange()).verdict == "right"
    require_served(served(case(exchange())), Path("serve.json"), Path("logs"))


@pytest.mark.parametrize(
    ("answer", "words"),
    [((1, 9, 3), "token 2 of 3 differs"), ((1, 2), "token 3 of 3 differs"), ((), "token 1 of 3 differs")],
)
def test_other_tokens_are_wrong(answer: tuple[int, ...], words: str) -> None:
    bad = case(exchange(), exchange(answer))
    assert bad.verdict == "wrong"
    (problem,) = bad.problems
    assert words in problem
    assert "0.2 standard deviations" in problem


@pytest.mark.parametrize("prompt", [(5,), (5, 7), (5, 6, 7)])
def test_another_reading_of_the_question_is_wrong(prompt: tuple[int, ...]) -> None:
    assert case(exchange(prompt=prompt)).verdict == "wrong"


def test_a_failure_counts_whatever_was_answered_and_no_answer_is_no_pass() -> None:
    assert case(exchange(), failure="it did not end").verdict == "failed"
    assert case().verdict == "failed"
    assert not served().right


def test_the_error_names_cases_problems_and_the_log() -> None:
    with pytest.raises(ServeError) as raised:
        require_served(
            served(case(exchange()), case(exchange((9,))), case(failure="it died", started=None)),
            Path("out/serve.json"),
            Path("logs"),
        )
    text = str(raised.value)
    assert "opt bfloat16 _C: completion of 2 tokens: token 1 of 3 differs" in text
    assert "it died" in text
    assert "logs/serve-opt.log" in text
    assert raised.value.exit_code == 44


def test_it_is_read_back_as_it_was_written() -> None:
    written = served(case(exchange()))
    assert Served.model_validate_json(written.model_dump_json()) == written
