from __future__ import annotations

import pytest

from cpuwheels.kernels.eta import Remaining


def test_before_anything_is_done_the_expected_work_counts():
    remaining = Remaining({"a.o": 100, "b.o": 20, "c.o": 80}, cpus=2)
    assert remaining.eta(0) == 100
    assert remaining.eta(30) == 70


def test_later_the_real_speed_counts():
    remaining = Remaining({"a.o": 100, "b.o": 20, "c.o": 80}, cpus=2)
    remaining.done("a.o")
    assert remaining.eta(200) == pytest.approx(200)
    remaining.done("c.o")
    assert remaining.eta(360) == pytest.approx(40)
    remaining.done("b.o")
    assert remaining.eta(400) == 0


def test_a_slow_start_never_means_that_nothing_is_left():
    remaining = Remaining({"a.o": 100, "b.o": 100}, cpus=2)
    assert remaining.eta(10_000) == pytest.approx(20)


def test_what_is_not_known_is_passed_over():
    remaining = Remaining({"a.o": 10}, cpus=1)
    remaining.done("other.o")
    assert remaining.eta(0) == 10


def test_without_files_there_is_no_answer():
    assert Remaining({}, cpus=2).eta(5) is None
