"""How far a result may be from the exact one: the files in ``limits``, and what their numbers mean."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch

from harness.cpu import has_any
from harness.expected import Near
from harness.formats import FLOATS, name_of, ulp, unit_roundoff

FOLDER = Path(__file__).parent.parent / "limits"
# Intel's VCVTNEPS2BF16 and AMX write zero for what would be subnormal (Intel 64 SDM, volume 2).
_FLUSHED = {torch.bfloat16: torch.finfo(torch.bfloat16).smallest_normal}
_SETTINGS = {"derivation", "deterministic", "formats", "limits", "without"}
_GROWTH = {"none": lambda _: 1.0, "sqrt": math.sqrt, "linear": float}


Determinism = bool | Literal["threads"]


class LimitsError(Exception):
    """A file of limits says something that means nothing."""


@dataclass(frozen=True)
class Bound:
    """The largest error of each element of an output; float64.

    Attributes:
        storing: What rounding the exact result to the output's format may change; no kernel can do without.
        computing: What roundings on the way to it may change.
    """

    storing: torch.Tensor
    computing: torch.Tensor

    @property
    def total(self) -> torch.Tensor:
        """The limit."""
        return self.storing + self.computing


@dataclass(frozen=True)
class Limit:
    """The largest error of one output.

    An error may be ``stored`` ulps of the exact value in the output's format, and for each format in ``roundings``
    as many unit roundoffs of the magnitude, times the growth with the number of terms: 1, its square root
    (Higham & Mary 2019, A New Approach to Probabilistic Rounding Error Analysis), or the number itself.
    """

    stored: float = 0.5
    growth: str = "sqrt"
    roundings: tuple[tuple[str, float], ...] = ()
    absolute: float = 0.0

    def bound(self, expected: Near, dtype: torch.dtype, cut_off: Collection[str] = ()) -> Bound:
        """Return the limit for each element, in the shape of the value.

        Args:
            expected: The exact result.
            dtype: The output's format.
            cut_off: Formats that the library cuts off to instead of rounding: such errors may be twice as large.
        """
        units = sum(
            count * unit_roundoff(FLOATS[name]) * (2 if name in cut_off else 1) for name, count in self.roundings
        )
        stored = 2 * self.stored if name_of(dtype) in cut_off else self.stored
        slack = units * _GROWTH[self.growth](expected.length) * expected.relative_to + self.absolute
        finite = (expected.value.abs() + slack).nan_to_num(0.0, 0.0, 0.0)
        return Bound(stored * ulp(finite, dtype) + _FLUSHED.get(dtype, 0.0), slack)


@dataclass(frozen=True)
class OperatorLimits:
    """What is known of one operator.

    Attributes:
        derivation: Why its limits are what they are.
        deterministic: Whether it always gives the same bits; ``threads`` if it does so with as many threads. May be
            given for each output; what is not named is deterministic.
        limits: By output and data type.
        formats: Formats of outputs, likewise; what is not named has the format of the case.
    """

    derivation: str
    deterministic: Determinism | Mapping[str, Determinism]
    limits: Mapping[str, Limit]
    formats: Mapping[str, str] = field(default_factory=dict)

    def determinism(self, output: str) -> Determinism:
        """Return whether an output always has the same bits."""
        return self.deterministic.get(output, True) if isinstance(self.deterministic, Mapping) else self.deterministic

    def of(self, output: str, dtype: str) -> Limit:
        """Return the limit of an output in a case of a data type; the most special entry counts."""
        for key in _keys(output, dtype):
            if key in self.limits:
                return self.limits[key]
        raise LimitsError(f"there is no limit for the output {output!r} with {dtype}; add one to limits/, or '*'")

    def format_of(self, output: str, dtype: str) -> str:
        """Return the format that an output has to have in a case of a data type, by torch's name."""
        return next((self.formats[key] for key in _keys(output, dtype) if key in self.formats), dtype)


def _keys(output: str, dtype: str) -> tuple[str, ...]:
    """Return the keys of a table by output and data type that may be meant, the most special first."""
    return (f"{output}:{dtype}", output, dtype, "*")


@cache
def operator_limits(operator: str) -> OperatorLimits:
    """Return the limits of an operator; bit for bit what the oracle says if no file names it."""
    return _table().get(operator, OperatorLimits("exact", deterministic=True, limits={}))


@cache
def _table() -> dict[str, OperatorLimits]:
    table: dict[str, OperatorLimits] = {}
    for path in sorted(FOLDER.glob("*.toml")):
        with path.open("rb") as stream:
            entries = tomllib.load(stream)
        if twice := set(entries) & set(table):
            raise LimitsError(f"{path.name}: {min(twice)} has limits in another file, too")
        table |= {name: _operator(f"{path.name}: {name}", entry) for name, entry in entries.items()}
    return table


def _operator(where: str, entry: Mapping[str, Any]) -> OperatorLimits:
    if unknown := set(entry) - _SETTINGS:
        raise LimitsError(f"{where}: unknown {', '.join(sorted(unknown))}")
    if not entry.get("derivation", "").strip():
        raise LimitsError(f"{where}: no derivation")
    given = entry.get("deterministic", True)
    if any(one not in (True, False, "threads") for one in (given.values() if isinstance(given, dict) else [given])):
        raise LimitsError(f'{where}: deterministic is true, false, or "threads"')
    if "without" in entry and (given is True or not entry["without"]):
        raise LimitsError(f"{where}: without names the CPU features with which it is deterministic after all")
    if has_any(entry.get("without", ())):
        given = True
    limits = {key: _limit(f"{where}: {key}", value) for key, value in entry.get("limits", {}).items()}
    return OperatorLimits(entry["derivation"], given, limits, entry.get("formats", {}))


def _limit(where: str, entry: Mapping[str, Any]) -> Limit:
    if unknown := set(entry) - {"stored", "growth", "absolute", *FLOATS}:
        raise LimitsError(f"{where}: unknown {', '.join(sorted(unknown))}")
    if entry.get("growth", "sqrt") not in _GROWTH:
        raise LimitsError(f"{where}: growth is one of {', '.join(_GROWTH)}")
    return Limit(
        stored=float(entry.get("stored", 0.5)),
        growth=entry.get("growth", "sqrt"),
        roundings=tuple((name, float(entry[name])) for name in FLOATS if name in entry),
        absolute=float(entry.get("absolute", 0.0)),
    )
