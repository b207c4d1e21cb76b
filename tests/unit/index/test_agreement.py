"""How many rebuilders agree, in a line, and whether that is enough."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from cpuwheels.config.rebuilders import Rebuilders
from cpuwheels.index.agreement import Agreement, Finding, agreement_words

SAME, OTHER, THIRD = "a" * 64, "b" * 64, "c" * 64


def agreement(same: str = "", other: str = "", third: str = "", silent: str = "") -> Agreement:
    found = []
    for names, digest in ((same, SAME), (other, OTHER), (third, THIRD)):
        state = "reproduced" if digest == SAME else "differs"
        found += [
            Finding(name=name, keyid="1", state=state, rebuilt=digest, moment="2026-11-24T00:00:00Z")
            for name in names.split()
        ]
    return Agreement(findings=tuple(found), silent=tuple(silent.split()))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (agreement("a b"), "2 of 2 rebuilders agree"),
        (agreement("a b", "c"), f"2 of 3 rebuilders agree; c differs (sha256 {OTHER[:16]}…)"),
        (
            agreement("a", "b c", "d"),
            f"1 of 4 rebuilders agree; b, c differ (sha256 {OTHER[:16]}…); d differs (sha256 {THIRD[:16]}…)",
        ),
        (agreement("a", silent="b c"), "1 of 3 rebuilders agree; not yet: b, c"),
        (agreement(silent="a"), "0 of 1 rebuilder agrees; not yet: a"),
        (agreement(), "0 of 0 rebuilders agree"),
    ],
)
def test_words(found: Agreement, words: str) -> None:
    assert agreement_words(found) == words


@pytest.mark.parametrize(
    ("found", "required", "enough"),
    [
        (agreement("a b"), 2, True),
        (agreement("a b", "c"), 2, True),
        (agreement("a b"), 3, False),
        (agreement("a", "b"), 1, False),
        (agreement("a", "b", "c"), 1, False),
        (agreement("a", "", "", "b c"), 1, True),
        (agreement("", "", "", "a"), 1, False),
    ],
)
def test_enough_agree_and_more_than_differ(found: Agreement, required: int, *, enough: bool) -> None:
    assert found.fulfils(required) == enough


def rebuilder(**changes: object) -> dict[str, object]:
    return {"name": "a", "url": "https://a.example.org", "keys": ["k"], **changes}


@pytest.mark.parametrize(
    "listed",
    [
        [rebuilder(name="<b>")],
        [rebuilder(url="javascript:alert(1)")],
        [rebuilder(url='https://a"><script>')],
        [rebuilder(url="https://u:p@a.example.org")],
        [rebuilder(url="https://a.example.org/?x")],
        [rebuilder(keys=[])],
        [rebuilder(), rebuilder()],
    ],
)
def test_what_is_no_list_of_rebuilders(listed: list[dict[str, object]]) -> None:
    assert Rebuilders.model_validate({"rebuilders": [rebuilder(), rebuilder(name="b")]})
    with pytest.raises(ValidationError):
        Rebuilders.model_validate({"rebuilders": listed})
