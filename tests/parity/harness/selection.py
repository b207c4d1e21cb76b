"""Which cases a library gets: those of the operators that it registers, with the arguments that these take."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Collection
from functools import cache

import cases
from harness.case import FAMILIES, Case, Family
from harness.waivers import waivers

Takes = Callable[[str, str], bool]


@cache
def families() -> tuple[Family, ...]:
    """Import every module of cases and return what they registered."""
    for module in pkgutil.iter_modules(cases.__path__):
        importlib.import_module(f"cases.{module.name}")
    return tuple(FAMILIES)


def families_for(operators: Collection[str], takes: Takes | None = None) -> list[Family]:
    """Return the families whose operators are all there.

    Args:
        operators: What is registered.
        takes: Says whether an operator has an argument, ``Library.takes``; None for the families of all versions.
    """
    there = [family for family in families() if set(family.operators) <= set(operators)]
    return there if takes is None else [family for family in there if _fits(family, takes)]


def _fits(family: Family, takes: Takes) -> bool:
    first = family.operators[0]
    has = all(takes(first, argument) for argument in family.takes)
    return has and not any(takes(first, argument) for argument in family.lacks)


def cases_for(operators: Collection[str], level: str, takes: Takes | None = None) -> list[Case]:
    """Return the cases of a level (deep ones are drawn later; their level has the full ones too)."""
    chosen = [
        case
        for family in families_for(operators, takes)
        for case in family.cases("smoke" if level == "smoke" else "full")
    ]
    names = [case.name for case in chosen]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"two cases have the name {min(twice)}")
    return chosen


def uncovered(operators: Collection[str], registered: Collection[str], takes: Takes | None = None) -> list[str]:
    """Return those operators that no case tries and no waiver names; a case needs all of its own to be registered."""
    tried = {name for family in families_for(registered, takes) for name in family.operators}
    return sorted(set(operators) - tried - set(waivers()))
