"""Long lists are cut, and never silently."""

from __future__ import annotations

import pytest

from cpuwheels.core.text import counted, first_lines, first_names, printable


@pytest.mark.parametrize(
    ("count", "expected"),
    [(2, ["a", "b", "and 1 more"]), (3, ["a", "b", "c"]), (9, ["a", "b", "c"]), (0, ["and 3 more"])],
)
def test_lines(count: int, expected: list[str]) -> None:
    assert first_lines(["a", "b", "c"], count) == expected


def test_where_the_others_are() -> None:
    assert first_lines(["a", "b"], 1, "see the log") == ["a", "and 1 more, see the log"]


@pytest.mark.parametrize(("number", "text"), [(0, "0 wheels"), (1, "1 wheel"), (2, "2 wheels")])
def test_a_number_of_things(number: int, text: str) -> None:
    assert counted(number, "wheel") == text


@pytest.mark.parametrize(("count", "expected"), [(1, "a and 2 more"), (3, "a, b, c")])
def test_names(count: int, expected: str) -> None:
    assert first_names(["a", "b", "c"], count) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vllm-0.32.0 über alles.whl", "vllm-0.32.0 über alles.whl"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("a\nnext: do it", "a\\nnext: do it"),
        ("a\r\t\0\x9b", "a\\r\\t\\x00\\x9b"),
        ("gpj\u202eexe", "gpj\\u202eexe"),
        ("\u2066x\u2069\u200f", "\\u2066x\\u2069\\u200f"),
        ("\u2028", "\\u2028"),
        ("\udcff", "\\udcff"),
    ],
)
def test_nothing_that_a_terminal_obeys_is_printed(text: str, expected: str) -> None:
    assert printable(text) == expected
    printable(text).encode()
