"""A kernel library, and its operators with their schemas checked at every call."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch

from harness.closed import CLOSES, closed
from harness.compare import bits
from harness.draw import guards

TABLES = Path(__file__).parent.parent
UNMARKED = "Schemas that do not say what is written"
"""The known fault that ``schemas.toml`` is about."""

NAMESPACE = "_C"
"""Every one of upstream's CPU libraries registers its operators there; so each needs a process of its own."""


class SchemaViolationError(AssertionError):
    """An operator changed an argument that its schema says it only reads."""


class Library:
    """The operators of one library; ``library.rms_norm(...)`` calls one.

    Tensors that an operator's schema does not mark as written must be the same after the call, unless ``checked`` is
    false: then it is the bare operator that is called.

    Attributes:
        operators: What it registers, without namespace.
        called: The operators that were called.
        made: The tensors that they returned and that are no argument's memory.
        cut_off: Formats that it cuts numbers off to instead of rounding, from ``libraries.toml``.
    """

    def __init__(self, path: Path, *, checked: bool = True, fixed: Collection[str] = ()) -> None:
        """Load a library.

        Args:
            path: Its file.
            checked: Whether arguments that operators only read are compared.
            fixed: Names of the known faults that it does not have, as its wheel says.

        Raises:
            OSError: It cannot be loaded.
        """
        before = set(_registered())
        torch.ops.load_library(str(path))
        self.path = path
        known = _known(self.name)
        self.cut_off = frozenset(() if known.get("fault") in fixed else known.get("cut_off", ()))
        self._checked, self._all_marked = checked, UNMARKED in fixed
        self.operators = sorted({name.partition(".")[0] for name in set(_registered()) - before})
        self.called: set[str] = set()
        self.made: list[torch.Tensor] = []

    @property
    def name(self) -> str:
        """Its file's name without endings, such as ``_C_AVX2``."""
        return self.path.name.partition(".")[0]

    def takes(self, operator: str, argument: str) -> bool:
        """Return whether an operator has an argument: versions of vLLM differ."""
        return argument in _arguments(operator)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        packet = getattr(getattr(torch.ops, NAMESPACE), name)
        if not self._checked:
            return packet.default
        schema = torch._C._get_schema(f"{NAMESPACE}::{name}", "")

        def call(*arguments: Any, **keywords: Any) -> Any:
            self.called.add(name)
            kept = [
                (argument.name, tensor, _memory(tensor).clone())
                for argument, value in bound(schema, arguments, keywords)
                if not (is_marked(argument) if self._all_marked else may_write(name, argument))
                for tensor in tensors(value)
            ]
            with closed(guards() if CLOSES else []):
                result = packet(*arguments, **keywords)
            for what, tensor, before in kept:
                if not torch.equal(_memory(tensor), before):
                    raise SchemaViolationError(f"{name} changed its argument {what!r}, which its schema does not allow")
            given = {_place(tensor) for _, value in bound(schema, arguments, keywords) for tensor in tensors(value)}
            self.made += [tensor for tensor in tensors(result) if _place(tensor) not in given]
            return result

        return call

    def has_made(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor is the memory of what an operator made: then it chose its format, too."""
        return tensor.numel() > 0 and _place(tensor) in {_place(each) for each in self.made}


@cache
def _arguments(operator: str) -> frozenset[str]:
    schema = torch._C._get_schema(f"{NAMESPACE}::{operator}", "")
    return frozenset(argument.name for argument in schema.arguments)


def _known(library: str) -> Mapping[str, Any]:
    with (TABLES / "libraries.toml").open("rb") as stream:
        return tomllib.load(stream).get(library, {})


def may_write(operator: str, argument: Any) -> bool:
    """Return whether an operator may change an argument, by its schema or by what ``schemas.toml`` knows of it."""
    return is_marked(argument) or argument.name in _unmarked().get(operator, {})


def is_marked(argument: Any) -> bool:
    """Return whether a schema marks an argument as written."""
    return argument.alias_info is not None and argument.alias_info.is_write


@cache
def _unmarked() -> dict[str, dict[str, str]]:
    with (TABLES / "schemas.toml").open("rb") as stream:
        return tomllib.load(stream)


def _registered() -> list[str]:
    names = torch._C._dispatch_get_all_op_names()
    return [name.removeprefix(f"{NAMESPACE}::") for name in names if name.startswith(f"{NAMESPACE}::")]


def bound(schema: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield each parameter of the schema with its value."""
    yield from zip(schema.arguments, arguments, strict=False)
    yield from ((parameter, keywords[parameter.name]) for parameter in schema.arguments if parameter.name in keywords)


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of a value: itself, or those in a list."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from tensors(each)


def _place(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _memory(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's elements as integers."""
    return bits(tensor.detach())
