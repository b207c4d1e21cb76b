"""Operators that are asked for have to be there."""

from __future__ import annotations

import pytest

from cpuwheels.core.errors import UsageError
from cpuwheels.verification.parity.operator_filter import require_operators

THERE = ["rms_norm", "silu_and_mul", "rotary_embedding"]


@pytest.mark.parametrize("asked", [[], ["rms_norm"], THERE])
def test_those_that_are_there_are_taken(asked: list[str]) -> None:
    require_operators(asked, THERE, "nobody")


@pytest.mark.parametrize(
    ("asked", "what", "next_step"),
    [
        (["rms_norn"], "no library has rms_norn", "choose from rms_norm"),
        (["zzz", "rms_norm", "aaa"], "no library has aaa, zzz", "choose from rms_norm, rotary_embedding, silu_and_mul"),
    ],
)
def test_others_are_refused_with_those_like_them(asked: list[str], what: str, next_step: str) -> None:
    with pytest.raises(UsageError) as raised:
        require_operators(asked, THERE, "no library")
    assert (raised.value.what, raised.value.next_step) == (what, next_step)
