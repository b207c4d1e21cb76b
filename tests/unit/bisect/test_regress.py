"""Which change is looked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cpuwheels.bisect.predicates import Judgement
from cpuwheels.bisect.regress import MEANINGS, Inverted, check_regress
from cpuwheels.bisect.search import Verdict
from cpuwheels.config.options import BisectOptions
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import UsageError

ALL = set(MEANINGS)


@pytest.mark.parametrize(
    ("given", "fitting"),
    [
        ({"run": "true"}, {"error", "success", "crash"}),
        ({"parity": "a"}, {"error", "success"}),
        ({"bench": "a"}, {"slow"}),
        ({"serve": "opt"}, ALL),
        ({"serve": __file__}, {"error", "success", "crash"}),
        ({"prompt": "x"}, {"error", "crash", "wrong-token"}),
        ({"prompt": "x", "serve": "opt"}, {"error", "crash", "wrong-token"}),
        ({}, ALL),
    ],
)
def test_each_way_finds_its_changes(given: dict[str, Any], fitting: set[str]) -> None:
    check_regress(BisectOptions(good="a", **given))
    for regress in ALL:
        options = BisectOptions(good="a", regress=regress, **given)  # type: ignore[arg-type]
        if regress in fitting:
            check_regress(options)
        else:
            with pytest.raises(UsageError, match=f"no change of the kind '{regress}'") as raised:
                check_regress(options)
            assert "or find it with --" in raised.value.next_step


def test_how_slow_matters_for_slowness_alone() -> None:
    for regress in ("error", "slow", None):
        check_regress(BisectOptions(good="a", serve="opt", slower=1.5, regress=regress))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="how slow a commit is does not matter for 'crash'"):
        check_regress(BisectOptions(good="a", serve="opt", slower=1.5, regress="crash"))


@pytest.mark.parametrize(("found", "inverted"), [("good", "bad"), ("bad", "good"), ("skip", "skip")])
def test_an_inverted_predicate_gives_the_opposite_verdict(found: str, inverted: str, reporter: Reporter) -> None:
    given: list[tuple[object, ...]] = []

    def predicate(*arguments: object) -> Judgement:
        given.append(arguments)
        return Judgement(Verdict(found), "why")

    place = Path("a.whl")
    assert Inverted(predicate)(place, "c", Path("f"), reporter, print) == Judgement(Verdict(inverted), "why")
    assert given == [(place, "c", Path("f"), reporter, print)]
