"""JSON schemas whose fields are described by the docstrings below them.

Pydantic can do that (``use_attribute_docstrings``), but then reads the source of each class when it is imported, in
every command. Here only what writes schemas does.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from cpuwheels.core.models import models_in

Mode = Literal["validation", "serialization"]


def described_schema(model: type[BaseModel], mode: Mode = "validation") -> dict[str, Any]:
    """Return a model's JSON schema, with a description of each field that has a docstring.

    Args:
        model: The model.
        mode: Whether the schema is of what is read or of what is written.
    """
    schema = model.model_json_schema(mode=mode)
    found = _models(model)
    names, _ = models_json_schema([(each, mode) for each in found])
    for each in found:
        name = names[each, mode]["$ref"].rpartition("/")[2]
        part = schema if each is model else schema.get("$defs", {}).get(name)
        if part is not None:
            _describe(part, each)
    return schema


def _describe(part: dict[str, Any], model: type[BaseModel]) -> None:
    properties, docstrings = part.get("properties", {}), _docstrings(model)
    for name, field in model.model_fields.items():
        for key in {name, field.alias} & properties.keys():
            if name in docstrings:
                properties[key].setdefault("description", docstrings[name])


def _docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings of a model's fields, those that it inherits too."""
    found = {}
    for each in reversed(model.__mro__):
        if issubclass(each, BaseModel) and each is not BaseModel:
            (body,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
            assert isinstance(body, ast.ClassDef)  # noqa: S101  (the source of a class)
            for field, below in pairwise(body.body):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                        found[name] = inspect.cleandoc(text)
    return found


def _models(root: type[BaseModel]) -> list[type[BaseModel]]:
    """Return a model and those of its fields, and of theirs."""
    found = [root]
    for each in found:
        for field in each.model_fields.values():
            found += [model for model in dict.fromkeys(models_in(field.annotation)) if model not in found]
    return found
