"""Data that others may have written gives a value or one error, in bounded time."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cpuwheels.core.errors import CpuwheelsError, MalformedDataError
from cpuwheels.core.parse import parse_json, parse_toml, parse_yaml

if TYPE_CHECKING:
    from collections.abc import Callable


def yaml_value(data: bytes | str, where: str) -> Any:
    return parse_yaml(data, where)[0]


PARSERS: dict[str, Callable[[bytes | str, str], Any]] = {"json": parse_json, "toml": parse_toml, "yaml": yaml_value}

_PLAIN = st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.text(max_size=20)
_VALUES = st.recursive(
    _PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)


@given(value=_VALUES)
def test_json_is_read_as_it_was_written(value: object) -> None:
    assert parse_json(json.dumps(value), "here") == value
    assert parse_json(json.dumps(value, ensure_ascii=False).encode(), "here") == value


@given(value=_VALUES)
def test_yaml_is_read_as_it_was_written(value: object) -> None:
    text = yaml.dump(value, Dumper=yaml.CSafeDumper)
    assert parse_yaml(text, "here")[0] == yaml.safe_load(text)


@pytest.mark.parametrize("kind", PARSERS)
@given(data=st.binary(max_size=200) | st.text(max_size=200) | st.text("[]{}\"'\\:,.&*-|> \n#=0aeEdDuU8+", max_size=200))
@settings(max_examples=300)
def test_anything_is_a_value_or_the_one_error(kind: str, data: bytes | str) -> None:
    try:
        value = PARSERS[kind](data, "here")
    except MalformedDataError as error:
        message = str(error)
    else:
        message = ascii(value)  # as deep as can be written
        str(value).encode()
    assert message
    message.encode()


@pytest.mark.parametrize(
    ("kind", "text", "words", "line"),
    [
        ("json", '{"a": 1,\n "b": }', "Expecting value", 2),
        ("json", '{"a": 1, "a": 2}', "the key 'a' is there twice", 0),
        ("json", '{"a": NaN}', "NaN is no number", 0),
        ("json", "[-Infinity]", "-Infinity is no number", 0),
        ("json", "[1e999]", "the number 1e999 is too large", 0),
        ("json", "9" * 5000, "a number of 5,000 digits", 0),
        ("json", "[" * 100_000, "nested more than 64 levels", 0),
        ("json", '{"a":' * 100_000, "nested more than 64 levels", 0),
        ("json", '["\\ud800"]', "half a character", 0),
        ("json", '{"\\uDC00": 1}', "half a character", 0),
        ("json", b'"\xff"', "not UTF-8", 0),
        ("json", "", "Expecting value", 1),
        ("toml", "a = 1\na = 2\n", "Cannot overwrite a value", 2),
        ("toml", "a = 1\nb = \n", "Invalid value", 2),
        ("toml", "a = nan", "nan is no number", 0),
        ("toml", "a = " + "9" * 5000, "4300 digits", 0),
        ("toml", "a = " + "9" * 120, "more than 100 digits", 0),
        ("toml", "a = " + "[" * 100_000, "nested more than 64 levels", 0),
        ("toml", "a = " + "[" * 100 + "]" * 100, "nested more than 64 levels", 0),
        ("toml", "b = 1\n" + "a." * 100_000 + "a = 1", "a key of more than 32 parts", 2),
        ("toml", "[" + '"a" . ' * 50 + "a]", "a key of more than 32 parts", 1),
        ("toml", b"a = '\xff'", "not UTF-8", 0),
        ("yaml", "a: 1\nb: 2\na: 3\n", "the key 'a' is there twice", 3),
        ("yaml", "a: 1\nb: [\n", "did not find expected", 3),
        ("yaml", "a: .nan", "nan is no number", 0),
        ("yaml", "a: 1\nb: " + "9" * 5000, "a number of 5,000 digits", 2),
        ("yaml", "[" * 100_000, "nested more than 64 levels", 1),
        ("yaml", "".join(f"{' ' * level}-\n" for level in range(100)), "nested more than 64 levels", 65),
        ("yaml", "a: 2026-11-25", "a value of the kind 'timestamp'", 1),
        ("yaml", "1: a", "a key that is not text", 1),
        ("yaml", "? [a]\n: b", "a key that is not text", 1),
        ("yaml", "a: !!python/object/apply:os.system [id]", "a value of the kind 'python/object", 1),
        ("yaml", "&a [*a]", "the alias *a of nothing that is complete", 1),
        ("yaml", "a: *b", "the alias *b of nothing", 1),
        ("yaml", b"a: \xff", "not UTF-8", 0),
    ],
)
def test_what_is_refused_and_where(kind: str, text: str | bytes, words: str, line: int) -> None:
    with pytest.raises(MalformedDataError) as raised:
        PARSERS[kind](text, "here")
    assert words in raised.value.what
    assert raised.value.where == (f"here:{line}" if line else "here")
    assert isinstance(raised.value, CpuwheelsError)
    assert isinstance(raised.value, ValueError)


def test_a_bomb_of_aliases_is_refused_before_it_grows() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 10)]
    with pytest.raises(MalformedDataError, match="more than 1,000,000 values"):
        parse_yaml("\n".join(lines), "here")


def test_aliases_that_repeat_little_are_read() -> None:
    text = "a: &a {x: 1}\nb: [*a, *a]\nc: {<<: *a, y: 2}\n"
    assert parse_yaml(text, "here")[0] == {"a": {"x": 1}, "b": [{"x": 1}, {"x": 1}], "c": {"x": 1, "y": 2}}


def test_aliases_do_not_add_levels_unseen() -> None:
    nested = "[" * 60 + "]" * 60
    with pytest.raises(MalformedDataError, match="nested more than 64 levels"):
        parse_yaml(f"- &a {nested}\n- [[[[[*a]]]]]\n", "here")


@pytest.mark.parametrize(("kind", "text"), [("json", "[%s]"), ("toml", "a = [%s]"), ("yaml", "[%s]")])
def test_the_size_is_bounded(kind: str, text: str) -> None:
    text %= "1," * 100 + "1"
    parser = {"json": parse_json, "toml": parse_toml, "yaml": parse_yaml}[kind]
    parser(text, "here", limit=len(text))
    with pytest.raises(MalformedDataError, match=f"more than {len(text) - 1} bytes"):
        parser(text, "here", limit=len(text) - 1)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("json", '"' + '\\"' * 1_000_000),
        ("json", '"' * 1_000_001),
        ("toml", "a" * 2_000_000),
        ("toml", '"' * 1_000_001),
        ("toml", "a." * 31 + " " * 2_000_000),
    ],
)
@pytest.mark.timeout(20)
def test_a_text_without_an_end_takes_linear_time(kind: str, text: str) -> None:
    with pytest.raises(MalformedDataError):
        PARSERS[kind](text, "here")


def test_toml_has_dates_and_versions() -> None:
    text = 'a = 2026-11-25T12:00:00Z\nb = "1.2.3"\nc = { d.e = 07:30:00 }\n'
    assert parse_toml(text, "here") == tomllib.loads(text)
