"""The report that is printed."""

from __future__ import annotations

import pytest
from buildbench.results import OURS
from buildbench.table import report, shown, table

from bench_results import results, run, whole


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "seconds", "-"),
        (0.404, "ratio", "0.40"),
        (0.0342, "ratio", "0.034"),
        (99.94, "seconds", "99.9 s"),
        (6198.6, "seconds", "6,199 s"),
        (132_700_000, "bytes", "132.7 MB"),
        (0.01234, "milliseconds", "12.3 ms"),
    ],
)
def test_figures(value: float | None, unit: str, text: str) -> None:
    assert shown(value, unit) == text


def test_a_table_is_markdown() -> None:
    assert table(["", "a"], [["b", "1"]]) == "|  | a |\n| --- | --- |\n| b | 1 |"


def test_both_sides_stand_beside_each_other() -> None:
    text = report(whole())
    assert "| files compiled and linked | 491 | 319 | 0.65 |" in text
    assert "| CPU seconds, all processes | 6,000 s | 1,500 s | 0.25 |" in text
    assert "| peak memory (PSS) | 2 GiB | 2 GiB | 1.00 |" in text
    assert "| peak of the control group, with file cache | 5 GiB | - | - |" in text
    assert "| _C | 173.0 MB | 31.0 MB | 14.0 MB | 0.081 |" in text
    assert "| all modules | 260.0 MB | 57.0 MB | 24.0 MB | 0.092 |" in text
    assert "| 132.7 MB | - | 15.0 MB | 0.11 |" in text
    assert "| nothing changed | 1.0 s | 2.0 s | 0.001 |" in text
    assert "| 4G | 4 GiB | 1.00 | 847 s | 1.10 | memgate's watch over the process tree |" in text
    assert "| 8G | 6 GiB | 0.75 | 771 s | 1.00 | cgroup v2 |" in text
    assert "| machine | 3 GiB | - | 770 s | 1.00 |" in text
    assert "| full level, without the emulated CPU | 180 s | 300 s |" in text
    assert "2026-11-21, 2 CPUs of Example 9000, 24 GiB, Linux 6.1." in text
    assert "MISSED" not in text


def test_stages_stand_beside_each_other() -> None:
    found = results(
        unsteered=run(stages={"configure": 30, "build": 3100}), ours=run(stages={"kernels": 1200, "wheel": 9.5})
    )
    text = report(found)
    assert "|  | cold/unsteered | cold/ours |" in text
    assert "| build | 3,100 s | - |" in text
    assert "| wheel | - | 9.5 s |" in text
    assert "Wall time of each stage" not in report(results(ours=run()))


def test_only_what_was_measured_is_there() -> None:
    text = report(results(noop=run(2, 3.5)))
    assert "Cold build" not in text
    assert "Size:" not in text
    assert "Memory caps" not in text
    assert "| nothing changed: wall | 3.50 s | ≤ 1.0 s | MISSED |" in text
    assert "not measured" in text


def test_a_machine_that_was_faster_for_one_side_is_told() -> None:
    uneven = results(unsteered=run(100, 400, pace=0.012), ours=run(30, 100, pace=0.010))
    text = report(uneven)
    assert "| CPU time of a small fixed task meanwhile | 12.0 ms | 10.0 ms | 0.83 |" in text
    assert "1.20 times as fast during cold/ours as during cold/unsteered" in text
    assert "at the same speed the ratio of CPU seconds would be 0.360" in text
    even = report(results(unsteered=run(100, 400, pace=0.0102), ours=run(30, 100, pace=0.010)))
    assert "at the same speed" not in even
    older = report(results(unsteered=run(100, 400), ours=run(30, 100)))
    assert "fixed task" not in older


def test_a_side_alone_has_no_ratio() -> None:
    assert "| CPU seconds, all processes | - | 100 s | - |" in report(results(ours=run()))


def test_other_work_is_told_of() -> None:
    assert "upper bounds" not in report(whole())
    busy = whole().with_run(OURS, run(2400, 1200, others_cpu=600))
    assert "cold/ours (10:00 of CPU time)" in report(busy)
