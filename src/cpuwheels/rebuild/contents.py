"""How two contents of one member differ, in lines for people: sections of ELF files, keys of JSON, lines of texts.

One of the two is somebody else's, so everything here is bounded: how much is read, compared and shown.
"""

from __future__ import annotations

import csv
import difflib
import hashlib
import io
import itertools
from typing import TYPE_CHECKING, Any, Literal

from cpuwheels.core.elf import MAGIC, sections
from cpuwheels.core.errors import MalformedDataError
from cpuwheels.core.parse import parse_json
from cpuwheels.core.text import parse_headers, printable
from cpuwheels.verification.reproducibility import first_difference

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Kind = Literal["elf", "json", "record", "headers", "text", "bytes"]
"""What a member is compared as."""

MOST_LINES = 120
"""Of one member."""
_LONGEST = 300
"""Characters of a line."""
_MOST_SECTIONS = 4096
_CONTEXT = 2
"""Lines around a difference."""
_TEXT_LINES = 1000
"""Lines between the first and the last difference of a text; with more, only the first is told."""
_KEYS = 20_000
_HEADERS = ("METADATA", "WHEEL")


def kind_of(name: str, one: bytes, other: bytes) -> Kind:
    """Return what two contents of a member are compared as."""
    last = name.rpartition("/")[2]
    if one.startswith(MAGIC) and other.startswith(MAGIC):
        return "elf"
    if any(b"\0" in content[:8192] for content in (one, other)):
        return "bytes"
    if ".dist-info/" in name and last in _HEADERS:
        return "headers"
    if ".dist-info/" in name and last == "RECORD":
        return "record"
    return "json" if last.endswith(".json") else "text"


def difference_lines(kind: Kind, one: bytes, other: bytes) -> list[str]:
    """Return how two contents differ, at most `MOST_LINES` lines that a terminal can show.

    Args:
        kind: What they are compared as.
        one: The published one.
        other: The rebuilt one.
    """
    try:
        lines = list(itertools.islice(_COMPARE[kind](one, other), MOST_LINES + 1))
    except (ValueError, MalformedDataError, csv.Error, RecursionError):
        lines = list(itertools.islice(_bytes(one, other), MOST_LINES + 1))
    if len(lines) > MOST_LINES:
        lines[MOST_LINES:] = ["and more"]
    return [_shown(line) for line in lines]


def _shown(line: str) -> str:
    text = printable(line.expandtabs())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _elf(one: bytes, other: bytes) -> Iterator[str]:
    """Yield the sections that differ; both have to be whole ELF files."""
    left, right = _sections(one), _sections(other)
    same = 0
    for name in dict.fromkeys([*left, *right]):
        if name not in right:
            yield f"section {name}: only in the published one, {len(left[name])} bytes"
        elif name not in left:
            yield f"section {name}: only in the rebuilt one, {len(right[name])} bytes"
        elif left[name] != right[name]:
            yield f"section {name}: {_where(left[name], right[name])}"
        else:
            same += 1
    yield f"{same} sections are the same"


def _sections(content: bytes) -> dict[str, memoryview]:
    listed = sections(io.BytesIO(content))
    if len(listed) > _MOST_SECTIONS or sum(end - start for start, end, _ in listed) > 2 * len(content):
        msg = "its sections lie over one another"
        raise ValueError(msg)
    found: dict[str, memoryview] = {}
    view = memoryview(content)
    for start, end, name in listed:
        found[name if name not in found else f"{name} at {start}"] = view[start:end]
    return found


def _where(one: bytes | memoryview, other: bytes | memoryview) -> str:
    offset = first_difference(io.BytesIO(one), io.BytesIO(other))
    sizes = f"{len(one)} bytes" if len(one) == len(other) else f"{len(one)} and {len(other)} bytes"
    return f"first differs at byte {offset} of {sizes}"


def _json(one: bytes, other: bytes) -> Iterator[str]:
    left, right = (_leaves(parse_json(content, "the wheel")) for content in (one, other))
    if left == right:
        yield "the same values, written otherwise"
    yield from _keys(left, right)


def _leaves(value: Any) -> dict[str, str]:  # noqa: ANN401  (whatever JSON has)
    found: dict[str, str] = {}
    ahead: list[tuple[str, Any]] = [("", value)]
    while ahead and len(found) < _KEYS:
        place, now = ahead.pop()
        if isinstance(now, dict) and now:
            ahead += [(f"{place}.{key}" if place else str(key), each) for key, each in now.items()]
        elif isinstance(now, list) and now:
            ahead += [(f"{place}[{index}]", each) for index, each in enumerate(now)]
        else:
            found[place or "the whole"] = repr(now)
    return dict(sorted(found.items()))


def _keys(left: Mapping[str, str], right: Mapping[str, str]) -> Iterator[str]:
    for key in dict.fromkeys([*left, *right]):
        if key not in right:
            yield f"{key}: only in the published one: {left[key]}"
        elif key not in left:
            yield f"{key}: only in the rebuilt one: {right[key]}"
        elif left[key] != right[key]:
            yield f"{key}: {left[key]} → {right[key]}"


def _record(one: bytes, other: bytes) -> Iterator[str]:
    left, right = (
        {row[0]: ", ".join(row[1:]) for row in csv.reader(io.StringIO(content.decode()), strict=True) if row}
        for content in (one, other)
    )
    if left == right:
        yield "the same rows, written otherwise"
    yield from _keys(left, right)


def _headers(one: bytes, other: bytes) -> Iterator[str]:
    left, right = ([f"{name}: {value}" for name, value in parse_headers(content).items()] for content in (one, other))
    yield from (f"only in the published one: {line}" for line in _without(left, right))
    yield from (f"only in the rebuilt one: {line}" for line in _without(right, left))
    texts = [content.partition(b"\n\n")[2] for content in (one, other)]
    if texts[0] != texts[1]:
        yield from _text(*texts)


def _without(lines: Iterable[str], others: Iterable[str]) -> list[str]:
    known = set(others)
    return [line for line in lines if line not in known]


def _text(one: bytes, other: bytes) -> Iterator[str]:
    left, right = one.decode().splitlines(), other.decode().splitlines()
    if left == right:
        yield "the same lines, with other ends"
        return
    shorter = min(len(left), len(right))
    head = next((index for index in range(shorter) if left[index] != right[index]), shorter)
    most = shorter - head
    tail = next((index for index in range(most) if left[-1 - index] != right[-1 - index]), most)
    # Only what lies between is compared: that takes the square of its length.
    start, ends = max(0, head - _CONTEXT), [len(lines) - max(0, tail - _CONTEXT) for lines in (left, right)]
    if max(ends) - start > _TEXT_LINES:
        yield f"line {head + 1}, of {len(left)} and {len(right)}:"
        yield from (f"{sign}{lines[head]}" for sign, lines in (("-", left), ("+", right)) if head < len(lines))
        return
    yield f"from line {start + 1}:"
    # The heads of such a list name files, which these are not.
    found = difflib.unified_diff(left[start : ends[0]], right[start : ends[1]], lineterm="", n=_CONTEXT)
    yield from itertools.islice(found, 2, None)


def _bytes(one: bytes, other: bytes) -> Iterator[str]:
    yield _where(one, other)
    yield f"sha256 {hashlib.sha256(one).hexdigest()} → {hashlib.sha256(other).hexdigest()}"


_COMPARE = {"elf": _elf, "json": _json, "record": _record, "headers": _headers, "text": _text, "bytes": _bytes}
