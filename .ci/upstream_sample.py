"""A plugin of pytest, put next to upstream's tests: at most so many cases of each test, drawn from all of its own."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

EACH = "UPSTREAM_TESTS_EACH"
"""Environment variable with the number."""


def chosen(names: list[str], most: int) -> set[str]:
    """Return the cases that are run, at most so many of each test. The same names give the same ones.

    They are drawn at random, since every so many-th of combined parameters could have the same one each time.

    Args:
        names: Node ids of pytest.
        most: Of each test.
    """
    tests = defaultdict(list)
    for name in names:
        tests[name.partition("[")[0]].append(name)
    draw = {test: random.Random(test) for test in tests}  # noqa: S311  (no secret)
    return {name for test, cases in tests.items() for name in draw[test].sample(cases, min(most, len(cases)))}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the other cases."""
    kept = chosen([item.nodeid for item in items], int(os.environ[EACH]))
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
    items[:] = [item for item in items if item.nodeid in kept]
