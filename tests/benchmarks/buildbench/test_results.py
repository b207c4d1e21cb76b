"""Results on disk, and what repetitions come to."""

from __future__ import annotations

from pathlib import Path

import pytest
from buildbench.results import OURS, read_results, write_results
from buildbench.targets import cpu, kernels, peak

from bench_results import GIB, results, run, whole
from cpuwheels.core.errors import UsageError


def test_written_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "bench" / "x86.json"
    write_results(path, whole())
    assert read_results(path) == whole()
    assert path.read_text().endswith("\n")


@pytest.mark.parametrize("text", ["", "{}", '{"format": 1, "unknown": 2}', "\xff"])
def test_what_is_no_result_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x86.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="cannot continue from x86"):
        read_results(path)


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--resume"):
        read_results(tmp_path / "x86.json")


def test_times_are_medians_and_peaks_the_largest() -> None:
    found = results()
    for seconds, held in ((100, 3 * GIB), (90, GIB), (300, 2 * GIB)):
        found = found.with_run(OURS, run(seconds, peak=held))
    assert found.value(OURS, cpu) == 100
    assert found.most(OURS, peak) == 3 * GIB


def test_what_a_run_does_not_say_is_left_out() -> None:
    found = results(ours=run(kernels=None)).with_run(OURS, run(wall=25))
    assert found.value(OURS, kernels) == 20
    assert results(ours=run(kernels=None)).value(OURS, kernels) is None
    assert results().most(OURS, peak) is None


def test_caps_come_in_the_order_of_their_size() -> None:
    found = results(**{"caps/none": run(), "caps/10G": run(cap=10 * GIB), "caps/3G": run(cap=3 * GIB), "ours": run()})
    assert found.caps() == ["caps/3G", "caps/10G"]
    assert found.uncapped() == "caps/none"
    assert results(ours=run()).uncapped() == OURS


def test_the_results_before_a_run_are_not_changed_by_it() -> None:
    before = results(ours=run())
    before.with_run(OURS, run())
    assert len(before.runs[OURS]) == 1
