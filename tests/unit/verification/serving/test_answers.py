from __future__ import annotations

import math

import pytest

from cpuwheels.verification.serving.answers import Answer, Embedding, Exchange, Question, Stream, distance

ASKED = Question(kind="completion", text="x", prompt=(5, 6), answer=(1, 2, 3), lead=0.2)
RIGHT = Answer(prompt=(5, 6), answer=(1, 2, 3), text="abc")
STREAM = Stream(answer=(1, 2, 3), text="abc", parts=3, first=0.1, usage=(2, 3))


def exchange(answer: Answer = RIGHT, stream: Stream | None = STREAM, *together: Answer) -> Exchange:
    return Exchange(question=ASKED, answer=answer, stream=stream, together=together)


def test_equal_tokens_are_right_however_they_were_asked_for() -> None:
    assert exchange().problem == ""
    assert exchange(RIGHT, STREAM, RIGHT, RIGHT).problem == ""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"answer": (1, 2)}, "the stream's parts are not the answer"),
        ({"answer": (1, 2, 4)}, "the stream's parts are not the answer"),
        ({"text": "ab"}, "the stream's parts are not the answer"),
        ({"usage": None}, "usage is None, not 2 and 3"),
        ({"usage": (2, 2)}, "usage is (2, 2), not 2 and 3"),
        ({"usage": (1, 3)}, "usage is (1, 3), not 2 and 3"),
        ({"parts": 1}, "came in one part"),
    ],
)
def test_a_stream_is_the_answer_in_parts(change: dict[str, object], words: str) -> None:
    assert words in exchange(RIGHT, STREAM.model_copy(update=change)).problem


def test_an_answer_that_others_change_is_wrong() -> None:
    other = RIGHT.model_copy(update={"answer": (1, 9, 3)})
    assert "asked together with others, token 2 of 3 differs" in exchange(RIGHT, STREAM, RIGHT, other).problem
    misread = RIGHT.model_copy(update={"prompt": (5,)})
    assert "asked together with others, the server read other tokens" in exchange(RIGHT, None, misread).problem


def vector(**change: object) -> Embedding:
    made = Embedding(text="x", tokens=3, counted=3, limit=0.01, error=0.005, together=(0.005, 0.01))
    return made.model_copy(update=change)


def test_a_vector_may_be_off_by_rounding() -> None:
    assert vector().problem == ""
    assert vector(error=0.01).problem == ""
    assert math.isclose(vector(error=0.2).cosine, 0.98)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"counted": 5}, "embedding of 3 tokens: the server read 5 tokens"),
        ({"error": 0.011}, "off by 0.011, and may be by 0.01"),
        ({"error": math.inf}, "off by inf"),
        ({"together": (0.001, 0.02)}, "asked together with others, its vector is off by 0.02, not 0.01 at most"),
    ],
)
def test_a_vector_that_is_off_is_told(change: dict[str, object], words: str) -> None:
    assert words in vector(**change).problem


def test_the_distance_of_two_vectors() -> None:
    assert distance([1.0, 0.0], [0.6, 0.8]) == pytest.approx(math.sqrt(0.8))
    assert distance([1.0], [1.0, 0.0]) == math.inf
    assert distance([1.0, 0.0], [math.nan, 0.0]) == math.inf


def test_an_infinite_error_is_read_back() -> None:
    lost = vector(error=math.inf)
    assert Embedding.model_validate_json(lost.model_dump_json()) == lost
