"""The campaign of attacks and faults: its classes and the numbers of their cases.

``tests/campaign/classes.toml`` lists the classes. A class has a folder of that name, in which each test that pytest
runs is a case. Its function or its parameters begin with its number: ``test_07_drip``, ``test_reads[07-drip]``.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from layout import TESTS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

CAMPAIGN = TESTS / "campaign"
DATA = CAMPAIGN / "classes.toml"

_CASE = re.compile(r"(?:^|/)tests/campaign/(?P<name>\w+)/test_\w+\.py::test_(?P<test>.+)")
_NUMBER = re.compile(r"(?:[^\[]*\[)?(\d+)[-_]")


@dataclass(frozen=True)
class CampaignClass:
    """Cases that attack the same thing.

    Attributes:
        name: Of its folder.
        about: What is attacked.
        holds: What must be true after each case.
        cases: The fewest cases it is to have.
        open: How many of these are missing.
    """

    name: str
    about: str
    holds: str
    cases: int
    open: int = 0


def load_classes(path: Path = DATA) -> tuple[CampaignClass, ...]:
    """Read the classes, in the file's order.

    Raises:
        TypeError: A class has an unknown key, or lacks one.
    """
    tables: dict[str, dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))
    return tuple(CampaignClass(name, **table) for name, table in tables.items())


def case_of(test: str) -> tuple[str, int] | None:
    """Return the class and the number of a case, given pytest's name of it, or nothing if it has none."""
    if not (found := _CASE.search(test)):
        return None
    number = _NUMBER.match(found["test"])
    return (found["name"], int(number[1])) if number else None


def faults(classes: Iterable[CampaignClass], tests: Iterable[str]) -> list[str]:
    """Return what is wrong with the numbers of the cases, a sentence each.

    Args:
        classes: What there is to be.
        tests: pytest's names of all tests below tests/campaign.
    """
    known = {each.name: each for each in classes}
    numbers: dict[str, Counter[int]] = {name: Counter() for name in known}
    found = []
    for test in tests:
        case = case_of(test)
        if case is None:
            found.append(f"{test} has no number")
        elif case[0] not in known:
            found.append(f"{test}: classes.toml has no {case[0]}")
        else:
            numbers[case[0]][case[1]] += 1
    for name, counter in numbers.items():
        found += [f"{name} has number {number} twice" for number, times in counter.items() if times > 1]
        found += [
            f"{name} lacks number {number}" for number in range(1, max(counter, default=0)) if not counter[number]
        ]
        missing = max(0, known[name].cases - len(counter))
        if missing != known[name].open:
            found.append(f"{name} has {len(counter)} of {known[name].cases} cases: its `open` is to be {missing}")
    return found
