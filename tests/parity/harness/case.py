"""Cases: which calls of which operators are tried, at three levels."""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from harness.draw import Draw
from harness.expected import Exact, Expected
from harness.formats import name_of

BASE_SEED = 20260101
LEVELS = ("smoke", "full", "deep")


@dataclass(frozen=True)
class Call:
    """One prepared call.

    Attributes:
        run: Calls the operator and returns its outputs by name. May run only once.
        expected: What the oracle says, by the same names. Called before ``run``, as operators change their inputs.
        close: Frees what was made for the call.
        formats: Formats of outputs that depend on a parameter other than ``dtype``.
        alone: Whether it is first run in a process of its own, which a fault may end.
    """

    run: Callable[[], Mapping[str, torch.Tensor]]
    expected: Callable[[], Mapping[str, Expected]]
    close: Callable[[], object] = lambda: None
    formats: Mapping[str, torch.dtype] = field(default_factory=dict)
    alone: bool = False


@dataclass(frozen=True)
class Case:
    """One case; ``name`` identifies it in every report and seeds its inputs.

    Attributes:
        operators: The operators that it tries; it is left out if the library lacks one.
        name: ``operator[parameter-parameter]``.
        dtype: What its limits depend on; the ``dtype`` parameter, or empty.
    """

    operators: tuple[str, ...]
    name: str
    dtype: str
    function: Callable[..., Call]
    parameters: Mapping[str, Any] = field(hash=False)

    @property
    def size(self) -> float:
        """Roughly how much there is to compute: the product of its sizes."""
        return _size(list(self.parameters.values()))

    @property
    def seed(self) -> int:
        """The seed of its inputs: it does not depend on which other cases there are."""
        return zlib.crc32(f"{BASE_SEED}:{self.name}".encode())

    def build(self, library: Any, draw: Draw) -> Call:
        """Prepare the call; the same inputs each time."""
        return self.function(library, draw, **self.parameters)


@dataclass(frozen=True)
class Family:
    """The cases of one function: all combinations of its parameters.

    ``takes`` and ``lacks`` are arguments that the first operator must have, and must not have: versions of vLLM differ.
    """

    operators: tuple[str, ...]
    function: Callable[..., Call]
    parameters: Mapping[str, Sequence[Any]]
    deep: Mapping[str, Any]
    where: Callable[..., bool]
    takes: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()

    def cases(self, level: str) -> Iterator[Case]:
        """Yield the cases of ``smoke`` or ``full``.

        The full level is every combination. The smoke level is the fewest in which every value of every parameter
        occurs ("each choice": Ammann & Offutt 1994, Using Formal Methods To Derive Test Frames).
        """
        combinations = [values for values in itertools.product(*self.parameters.values()) if self._allowed(values)]
        if level == "smoke":
            combinations = _each_choice(combinations)
        for values in combinations:
            yield self.case(dict(zip(self.parameters, values, strict=True)))

    def case(self, parameters: Mapping[str, Any]) -> Case:
        """Return the case with these parameters."""
        text = "-".join(_text(name, value) for name, value in parameters.items())
        dtype = parameters.get("dtype")
        return Case(
            self.operators,
            f"{self.function.__name__}[{text}]" if text else self.function.__name__,
            name_of(dtype) if isinstance(dtype, torch.dtype) else "",
            self.function,
            parameters,
        )

    def _allowed(self, values: Sequence[Any]) -> bool:
        return self.where(**dict(zip(self.parameters, values, strict=True)))


FAMILIES: list[Family] = []


def cases(
    *operators: str,
    deep: Mapping[str, Any] | None = None,
    where: Callable[..., bool] = lambda **_: True,
    takes: Sequence[str] = (),
    lacks: Sequence[str] = (),
    **parameters: Sequence[Any],
) -> Callable[[Callable[..., Call]], Callable[..., Call]]:
    """Register a function that prepares calls of the operators.

    It is called as ``function(library, draw, **parameters)``. A parameter named ``dtype`` selects the limits.

    Args:
        operators: All that it calls and tries, without namespace. The first one's limits count.
        deep: For each parameter that the deep level draws, a function that is given ``hypothesis.strategies`` and
            returns the strategy.
        where: Which combinations make sense.
        takes: Arguments of the first operator; the cases are left out where its schema has not all of them.
        lacks: Arguments of the first operator; the cases are left out where its schema has any of them.
        parameters: The values of each parameter.
    """

    def register(function: Callable[..., Call]) -> Callable[..., Call]:
        FAMILIES.append(Family(operators, function, parameters, deep or {}, where, tuple(takes), tuple(lacks)))
        return function

    return register


def _each_choice(combinations: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    """Return few of the combinations that have each value; cheap ones if there is a choice, and empty ones last."""
    order = sorted(combinations, key=lambda combination: (_empty(combination), _size(combination)))
    chosen: list[Sequence[Any]] = []
    seen: set[tuple[int, str]] = set()
    for _, alike in itertools.groupby(order, key=_empty):
        group = list(alike)
        for least in (2, 1):
            for combination in group:
                new = {(place, repr(value)) for place, value in enumerate(combination)} - seen
                if len(new) >= least or not chosen:
                    chosen.append(combination)
                    seen |= new
    return chosen


def _empty(combination: Sequence[Any]) -> int:
    """Return how many of the values are zero, or shapes with one: tensors without elements show little."""
    return sum(
        (value == 0 and value is not False) or (isinstance(value, tuple) and 0 in value) for value in combination
    )


def _size(combination: Sequence[Any]) -> float:
    """Return roughly how much there is to compute."""
    size = 1.0
    for value in combination:
        if isinstance(value, int) and not isinstance(value, bool):
            size *= max(abs(value), 1)
        elif isinstance(value, tuple):
            size *= math.prod(max(abs(part), 1) for part in value if isinstance(part, int))
    return size


def _text(name: str, value: Any) -> str:
    if isinstance(value, torch.dtype):
        return name_of(value)
    if isinstance(value, bool):
        return name if value else f"no_{name}"
    if isinstance(value, tuple):
        return "x".join(map(str, value)) or "()"
    return f"{name}={value}" if value is None or isinstance(value, int | float) else str(value)


def refused(call: Callable[[], object]) -> Call:
    """Return a call with arguments that the operator does not support: it must raise, and neither crash nor compute."""
    return Call(lambda: refusal(call), lambda: {"refused": Exact(torch.tensor(True))})


def refusal(call: Callable[[], object]) -> Mapping[str, torch.Tensor]:
    """Return whether a call raised an error, as an output."""
    try:
        call()
    except RuntimeError:
        return {"refused": torch.tensor(True)}
    return {"refused": torch.tensor(False)}
