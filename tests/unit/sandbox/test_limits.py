from __future__ import annotations

import resource

import pytest

from cpuwheels.sandbox.limits import Limits

NONE = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("before", "after"),
    [((NONE, NONE), (100, 100)), ((50, NONE), (50, 100)), ((50, 60), None), ((100, 100), None), ((0, 200), (0, 100))],
)
def test_a_limit_is_only_ever_lowered(before: tuple[int, int], after: tuple[int, int] | None) -> None:
    limits = Limits(core=None, file_size=None, cpu_seconds=100)
    assert limits.lowered(lambda _: before) == ({resource.RLIMIT_CPU: after} if after else {})


def test_there_are_no_core_dumps() -> None:
    assert Limits().lowered(lambda _: (NONE, NONE))[resource.RLIMIT_CORE] == (0, 0)


def test_what_is_not_limited_stays() -> None:
    assert Limits(core=None, file_size=None).lowered(lambda _: (NONE, NONE)) == {}
