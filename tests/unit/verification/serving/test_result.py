from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.core.errors import ServeError
from cpuwheels.verification.serving.answers import Answer, Embedding, Exchange, Question
from cpuwheels.verification.serving.result import Case, Figures, Served, require_served
from pseudo_terminal import WIDTHS, printed
from sample_results import serving

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


def test_equal_tokens_are_right() -> None:
    assert case(exchange()).verdict == "right"
    require_served(serving(case(exchange())), Path("serve.json"), Path("logs"))


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
    assert not serving().right


def test_the_error_names_cases_problems_and_the_log() -> None:
    with pytest.raises(ServeError) as raised:
        require_served(
            serving(case(exchange()), case(exchange((9,))), case(failure="it died", started=None)),
            Path("out/serve.json"),
            Path("logs"),
        )
    text = str(raised.value)
    assert "opt bfloat16 _C: completion of 2 tokens: token 1 of 3 differs" in text
    assert "it died" in text
    assert "logs/serve-opt.log" in text
    assert raised.value.exit_code == 44


def test_it_is_read_back_as_it_was_written() -> None:
    written = serving(case(exchange()))
    assert Served.model_validate_json(written.model_dump_json()) == written


def test_a_model_that_the_library_cannot_serve_is_named_and_not_counted() -> None:
    absent = case().model_copy(update={"absent": ("_C::cpu_gemm_wna16",), "library": "", "wanted": "_C_AVX2"})
    assert absent.verdict == "absent"
    assert absent.as_line() == "opt bfloat16 _C_AVX2: not served, since this library has no _C::cpu_gemm_wna16"
    assert serving(case(exchange()), absent).right
    require_served(serving(case(exchange()), absent), Path("serve.json"), Path("logs"))
    assert not serving(absent).right
    with pytest.raises(ServeError, match="nothing was served"):
        require_served(serving(absent), Path("serve.json"), Path("logs"))


def test_embeddings_count_as_answers() -> None:
    good = Embedding(text="x", tokens=3, counted=3, limit=0.01, error=0.001)
    assert case().model_copy(update={"embeddings": (good,)}).verdict == "right"
    bad = case().model_copy(update={"embeddings": (good, good.model_copy(update={"error": 1.0}))})
    assert bad.verdict == "wrong"
    assert bad.problems == ["embedding of 3 tokens: its vector is off by 1, and may be by 0.01"]


def test_a_table_has_what_was_served_how_and_how_fast() -> None:
    fast = Figures(source="x", requests=32, together=8, tokens_per_second=512.4, first_token_ms=20.0)
    compiled = case(exchange()).model_copy(update={"mode": "compile", "figures": fast})
    absent = case().model_copy(update={"absent": ("_C::x",), "library": "", "wanted": "_C_AVX2", "started": None})
    for width in WIDTHS:
        text = "\n".join(printed(serving(compiled, absent).as_table().print, width).rows)
        for words in ("compile", "512", "1 of 1", "not in this library", "_C_AVX2?"):
            assert words in text
    assert compiled.name == "opt bfloat16 _C compile"
    assert "512 tokens/s" in compiled.as_line()
