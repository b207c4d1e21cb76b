"""JSON, TOML and YAML that others may have written: bounded, strict, and with one error for everything wrong.

Refused are duplicate keys, NaN and Infinity, numbers of any length, half characters (lone surrogates), and what is
nested more deeply or is larger than any file that this program reads.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import tomllib
from datetime import date, time
from typing import TYPE_CHECKING, Any, NoReturn

import yaml

from cpuwheels.core.errors import MalformedDataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEEPEST = 64
"""How deeply lists and tables may be nested; this program's own files need fewer than ten levels."""

LONGEST = 64 << 20
"""Bytes of a text, unless the caller says another limit."""

_DIGITS = 100
"""Digits of a number: more than any size, time or count has."""
_LARGEST = 10**_DIGITS
_KEY_PARTS = 32
"""Parts of a dotted key in TOML, whose reader takes the square of their number."""

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_DOTTED = re.compile(
    rf"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{_KEY_PARTS}}}"""  # a run starts once
)
_VALUES = 1_000_000
"""Values of a YAML text, those counted again that an alias repeats."""
_TOML_LINE = re.compile(r"\(at line (\d+), column \d+\)$")
_YAML_TAGS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("map", "seq", "str", "int", "float", "bool", "null"))
_YAML_TEXT, _YAML_MERGE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"


class _ProblemError(ValueError):
    """What is wrong with a text, and in which line, counted from 1; 0 if that is not known."""

    def __init__(self, text: str, line: int = 0) -> None:
        super().__init__(text)
        self.line = line


def parse_json(data: bytes | str, where: str | Path, *, limit: int = LONGEST, next_step: str = "") -> Any:  # noqa: ANN401
    """Return the value of a JSON text (RFC 8259).

    Args:
        data: The text; bytes are UTF-8.
        where: What a message names: a file, an address, a program.
        limit: How many bytes it may have.
        next_step: For people, if it is malformed.

    Raises:
        MalformedDataError: It is not JSON, or one of what is refused.
    """
    try:
        return _json(_text(data, limit))
    except (ValueError, RecursionError) as error:
        raise _malformed("JSON", where, error, next_step) from error


def parse_toml(data: bytes | str, where: str | Path, *, limit: int = LONGEST, next_step: str = "") -> dict[str, Any]:
    """Return the table of a TOML text (version 1.0).

    Args:
        data: The text; bytes are UTF-8.
        where: What a message names: a file or an address.
        limit: How many bytes it may have.
        next_step: For people, if it is malformed.

    Raises:
        MalformedDataError: It is not TOML, or one of what is refused.
    """
    try:
        text = _text(data, limit)
        if found := _DOTTED.search(text):
            line = text.count("\n", 0, found.start()) + 1
            raise _ProblemError(f"a key of more than {_KEY_PARTS} parts", line)
        table = tomllib.loads(text)
        _check_values(table)
    except (ValueError, RecursionError) as error:
        raise _malformed("TOML", where, error, next_step) from error
    return table


def parse_yaml(
    data: bytes | str, where: str | Path, *, limit: int = LONGEST, next_step: str = ""
) -> tuple[Any, yaml.Node | None]:
    """Return the value of a YAML text of one document, and its nodes, which know their lines.

    Dates count as no kind of value here: they are written in quotes.

    Args:
        data: The text; bytes are UTF-8.
        where: What a message names: a file or an address.
        limit: How many bytes it may have.
        next_step: For people, if it is malformed.

    Raises:
        MalformedDataError: It is not YAML, or one of what is refused.
    """
    try:
        text = _text(data, limit)
        check_yaml_size(text)
        node = yaml.compose(text, Loader=yaml.CSafeLoader)
        if node is not None:
            _check_nodes(node)
        value = yaml.load(text, Loader=yaml.CSafeLoader)
        _check_values(value)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _malformed("YAML", where, error, next_step) from error
    return value, node


def check_yaml_size(text: str) -> None:
    """Check that a YAML text is not too deep or, with its aliases, too large, before anything recursive reads it.

    Raises:
        ValueError: It is, or a part of it has an alias of itself.
        yaml.YAMLError: It is not YAML.
    """
    anchors: dict[str, tuple[int, int]] = {}
    parts: list[tuple[str | None, int, int]] = [(None, 0, 0)]  # anchor, values and levels so far, of each open part
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        size, levels = 0, 0
        if isinstance(event, yaml.CollectionStartEvent):
            parts.append((event.anchor, 0, 0))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size, levels = parts.pop()
            size, levels = _named(anchors, anchor, size + 1, levels + 1)
        elif isinstance(event, yaml.ScalarEvent):
            size, levels = _named(anchors, event.anchor, 1, 0)
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in anchors:
                raise _at(event, f"the alias *{event.anchor:.40} of nothing that is complete")
            size, levels = anchors[event.anchor]
        anchor, before, deepest = parts[-1]
        parts[-1] = anchor, before + size, max(deepest, levels)
        if len(parts) - 1 + levels > DEEPEST:
            raise _at(event, f"it is nested more than {DEEPEST} levels deep")
        if before + size > _VALUES:
            raise _at(event, f"it has more than {_VALUES:,} values")


def _named(anchors: dict[str, tuple[int, int]], anchor: str | None, size: int, levels: int) -> tuple[int, int]:
    """Return the size and levels of a part, and keep them for its aliases."""
    if anchor:
        anchors[anchor] = size, levels
    return size, levels


def _at(event: yaml.Event, problem: str) -> _ProblemError:
    mark = event.start_mark
    return _ProblemError(problem, mark.line + 1 if mark else 0)


def _text(data: bytes | str, limit: int) -> str:
    if len(data) > limit:
        raise _ProblemError(f"it has more than {limit:,} bytes")
    if isinstance(data, str):
        return data
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _ProblemError("it is not UTF-8 text") from error


def _json(text: str) -> Any:  # noqa: ANN401
    brackets = _STRING.sub(b"", text.encode("utf-8", "surrogatepass")).translate(None, _NO_BRACKETS)
    if max(itertools.accumulate(map(_STEPS.__getitem__, brackets)), default=0) > DEEPEST:
        raise _ProblemError(f"it is nested more than {DEEPEST} levels deep")
    value = json.loads(
        text, object_pairs_hook=_object, parse_int=_integer, parse_float=_number, parse_constant=_constant
    )
    if not text.isascii() or _ESCAPED_SURROGATE.search(text):
        _check_values(value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise _ProblemError(f"the key {next(name for name in names if names.count(name) > 1)!r:.80} is there twice")
    return found


def _integer(text: str) -> int:
    if len(text) > _DIGITS:
        raise _ProblemError(f"a number of {len(text):,} digits")
    return int(text)


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _ProblemError(f"the number {text:.40} is too large")
    return value


def _constant(text: str) -> NoReturn:
    raise _ProblemError(f"{text} is no number")


def _check_nodes(root: yaml.Node) -> None:
    """Check the kinds of values, which are only known before they are made, and that no key is there twice."""
    ahead = [root]
    while ahead:
        node = ahead.pop()
        line = node.start_mark.line + 1
        if node.tag not in _YAML_TAGS:
            raise _ProblemError(
                f"a value of the kind {node.tag.removeprefix('tag:yaml.org,2002:')!r:.40}; write text in quotes", line
            )
        if isinstance(node, yaml.ScalarNode) and node.tag != _YAML_TEXT and len(node.value) > _DIGITS:
            raise _ProblemError(f"a number of {len(node.value):,} digits", line)
        if isinstance(node, yaml.SequenceNode):
            ahead += node.value
        if isinstance(node, yaml.MappingNode):
            names: set[str] = set()
            for key, value in node.value:
                ahead.append(value)
                if key.tag == _YAML_MERGE:
                    continue
                line = key.start_mark.line + 1
                if key.tag != _YAML_TEXT:
                    raise _ProblemError("a key that is not text; write it in quotes", line)
                if key.value in names:
                    raise _ProblemError(f"the key {key.value!r:.80} is there twice", line)
                names.add(key.value)


def _check_values(root: Any) -> None:  # noqa: ANN401
    for value in _leaves(root):
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise _ProblemError(f"text with half a character: {value!r:.80}") from error
        elif isinstance(value, float) and not math.isfinite(value):
            raise _ProblemError(f"{value} is no number")
        elif isinstance(value, int) and abs(value) >= _LARGEST:
            raise _ProblemError(f"a number of more than {_DIGITS} digits")
        elif value is not None and not isinstance(value, (int, float, date, time)):
            raise _ProblemError(f"a value of the kind {type(value).__name__}")


def _leaves(root: Any) -> Iterator[Any]:  # noqa: ANN401
    """Yield every key and every value that is neither a list nor a table."""
    level = [root]
    for _ in range(DEEPEST + 1):
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                yield from value
                below += value.values()
            elif isinstance(value, list):
                below += value
            else:
                yield value
        level = below
    if level:
        raise _ProblemError(f"it is nested more than {DEEPEST} levels deep")


def _malformed(kind: str, where: str | Path, error: Exception, next_step: str) -> MalformedDataError:
    line, problem = 0, str(error)
    if isinstance(error, _ProblemError):
        line = error.line
    elif isinstance(error, json.JSONDecodeError):
        line, problem = error.lineno, error.msg
    elif isinstance(error, yaml.YAMLError):
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 0
        problem = getattr(error, "problem", None) or (problem.splitlines() or [""])[0]
    elif isinstance(error, RecursionError):
        problem = f"it is nested more than {DEEPEST} levels deep"
    elif found := _TOML_LINE.search(problem):
        line, problem = int(found[1]), problem[: found.start()].rstrip()
    return MalformedDataError(
        f"not valid {kind}: {problem}",
        where=f"{where}:{line}" if line else str(where),
        next_step=next_step or "get or make it again; if you wrote it, correct it",
    )
