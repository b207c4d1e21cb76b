"""Strict, frozen models read from YAML and JSON, with messages that name file, line and the nearest allowed key."""

from __future__ import annotations

import difflib
import functools
import json
import os
import re
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, StringConstraints, TypeAdapter, ValidationError

from cpuwheels.core.errors import MalformedDataError, MatrixError
from cpuwheels.core.parse import LONGEST, parse_json, parse_yaml
from cpuwheels.core.plain_file import read_plain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
Identifier = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]*$")]
Moment = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
"""ISO 8601, UTC, in seconds."""

_LONGEST = 8 << 20
"""Bytes of a file; the longest lock has 0.1 MB."""

_Location = tuple[int | str, ...]
Loaded = TypeVar("Loaded", bound=BaseModel)
Kind = TypeVar("Kind")


class Strict(BaseModel):
    """Base of every configuration model: frozen, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@functools.lru_cache(maxsize=64)
def _parsed(text: bytes, path: Path) -> tuple[Any, yaml.Node | None]:
    """Return the value of a text and its nodes; one process makes several wheels, and reads the same files for each."""
    return parse_yaml(text, path, limit=_LONGEST)


def load_yaml(path: Path, model: type[Loaded]) -> Loaded:
    """Read a YAML file into a model.

    Raises:
        MatrixError: The file is missing, is not YAML, or does not fit the model. Every fault is listed
            with its line, and an unknown key with the allowed key that is nearest to it.
    """
    try:
        # A person may have linked it; what the link leads to has to be a file.
        data, node = _parsed(read_plain(os.path.realpath(path), _LONGEST), path)
    except OSError as error:
        raise MatrixError(
            f"cannot read {path.name}: {error.strerror}",
            where=path,
            next_step="correct its path; --root names the folder with the project's files, --matrix a matrix",
        ) from error
    except MalformedDataError as error:
        raise MatrixError(
            f"{path.name} is {error.what}", where=error.where, next_step="correct the file at or above that line"
        ) from error
    if data is None:
        raise MatrixError(
            f"{path.name} is empty", where=path, next_step=f"its keys are in docs/reference/{_page(model)}"
        )
    try:
        model.model_validate(data)  # first: its messages know dictionaries, those of JSON objects
        # Strict, so that `size: true` or `size: "3"` is no number; as JSON, so that lists may still become tuples.
        return model.model_validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        # A misspelt key is also missing under its right name; the misspelling explains both, so it comes first.
        found = sorted(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")
        faults = [_describe(fault, path, node, model) for fault in found]
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        first_line = _line(node, found[0]["loc"])
        raise MatrixError(
            faults[0] + more,
            where=f"{path}:{first_line}",
            output="\n".join(faults[1:]),
            next_step=f"correct {path.name}; its allowed keys are in docs/reference/{_page(model)}",
        ) from error


def parse_as(kind: type[Kind], data: bytes | str, where: str | Path, *, limit: int = LONGEST) -> Kind:
    """Return the value of a JSON text that has to be of a kind, such as a model or ``list[str]``.

    Args:
        kind: What it has to be.
        data: The text; bytes are UTF-8.
        where: What a message names: a file, an address, a program.
        limit: How many bytes it may have.

    Raises:
        MalformedDataError: It is not JSON, or something else.
    """
    value = parse_json(data, where, limit=limit)
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place = ".".join(map(str, fault["loc"]))
        raise MalformedDataError(
            f"not what it has to be: {place or 'the whole'}: {fault['msg']}",
            where=where,
            next_step="get or make it again; another version of what wrote it may write it differently",
        ) from error


def _page(model: type[BaseModel]) -> str:
    """Return the page of the reference about a file: it has the model's name, or the last word of it."""
    return f"{re.findall(r'[A-Z][a-z]+', model.__name__)[-1].lower()}.md"


def _describe(fault: object, path: Path, node: yaml.Node | None, model: type[BaseModel]) -> str:
    assert isinstance(fault, dict)  # noqa: S101  (pydantic's ErrorDetails)
    location: _Location = fault["loc"]
    dotted = ".".join(str(part) for part in location)
    place = f"{path.name}:{_line(node, location)}"
    if fault["type"] == "extra_forbidden":
        allowed = _fields_at(model, location[:-1])
        near = difflib.get_close_matches(str(location[-1]), allowed, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else f"; allowed: {', '.join(sorted(allowed))}"
        return f"{place}: unknown key '{dotted}'{hint}"
    value = "" if fault["type"] == "missing" else f", got {fault['input']!r:.80}"
    return f"{place}: {dotted or 'the file'}: {fault['msg'].removeprefix('Value error, ')}{value}"


def _line(node: yaml.Node | None, location: _Location) -> int:
    """Return the 1-based line of the deepest node on the way to ``location``."""
    line = 1
    for part in location:
        if isinstance(node, yaml.MappingNode):
            pair = next(((key, value) for key, value in node.value if key.value == str(part)), None)
            if pair is None:
                break
            line, node = pair[0].start_mark.line + 1, pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return line


def _fields_at(model: type[BaseModel], location: _Location) -> list[str]:
    """Return the field names of the model found by following a location through nested models."""
    current: type[BaseModel] = model
    for part in location:
        if isinstance(part, str) and part in current.model_fields:
            nested = next(models_in(current.model_fields[part].annotation), None)
            if nested is not None:
                current = nested
    return list(current.model_fields)


def models_in(annotation: object) -> Iterator[type[BaseModel]]:
    """Yield the models that a type names, such as that of ``dict[str, Model | None]``; not those of their fields."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from models_in(argument)
