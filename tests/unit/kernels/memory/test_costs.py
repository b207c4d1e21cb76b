"""What files are expected to cost: read, written, learned, and guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.config.matrix import load_matrix
from cpuwheels.core.errors import StoreError
from cpuwheels.kernels.memory.costs import (
    Cost,
    WrongPrediction,
    expected_costs,
    job_class,
    measured_costs,
    read_costs,
    write_costs,
    wrong_predictions,
)
from cpuwheels.kernels.memory.ledger import JobRecord
from ledger_records import job

ATTN = "CMakeFiles/_C.dir/csrc/cpu/cpu_attn.cpp.o"
NORM = "CMakeFiles/_C.dir/csrc/cpu/layernorm.cpp.o"
RNN = "_deps/onednn-build/src/cpu/CMakeFiles/dnnl_cpu.dir/rnn/ref_rnn.cpp.o"


def record(output: str, peak: int, *, tree: int = 0, user: float = 1.0, **more: object) -> JobRecord:
    return job(output, 0, 1, peak=peak, tree_bytes=tree, user=user, system=0.5, **more)


def test_costs_survive_writing(tmp_path: Path):
    costs = {ATTN: Cost(155.4, 2_587_955_200), RNN: Cost(0.25, 7)}
    write_costs(tmp_path / "deep" / "x86.tsv", costs, "measured\nsomewhere")
    text = (tmp_path / "deep" / "x86.tsv").read_text()
    assert text.startswith("# measured\n# somewhere\n155.40\t2587955200\tCMakeFiles/")
    assert read_costs(tmp_path / "deep" / "x86.tsv") == costs


def test_no_table_means_no_costs(tmp_path: Path):
    assert read_costs(tmp_path / "gone.tsv") == {}


@pytest.mark.parametrize(
    "garbage",
    [
        b"1.0\t5",
        b"x\t5\ta.o",
        b"1\tx\ta.o",
        b"1\t5\ta.o\tb.o",
        b"nan\t5\ta.o",
        b"inf\t5\ta.o",
        b"-1\t5\ta.o",
        b"1\t0\ta.o",
        b"1\t-5\ta.o",
        b"\xff\xfe\x00",
        b"",
        b"{}",
        b"# 1\t5\ta.o",
    ],
)
def test_lines_that_are_none_are_passed_over(tmp_path: Path, garbage: bytes):
    (tmp_path / "x.tsv").write_bytes(garbage + b"\n2\t9\tgood.o\n" + garbage)
    assert read_costs(tmp_path / "x.tsv") == {"good.o": Cost(2, 9)}


def test_a_table_that_cannot_be_written(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError):
        write_costs(tmp_path / "file" / "x.tsv", {})


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([record("a.o", 5)], {"a.o": Cost(1.5, 5)}),
        ([record("a.o", 5, tree=9)], {"a.o": Cost(1.5, 9)}),
        ([record("a.o", 9), record("a.o", 5)], {"a.o": Cost(1.5, 5)}),
        ([record("a.o", 5, status=1), record("a.o", 7, status=137)], {"a.o": Cost(1.5, 7)}),
        ([record("a.o", 9, status=137), record("a.o", 7, status=1)], {"a.o": Cost(1.5, 9)}),
        ([record("a.o", 9, status=137), record("a.o", 5)], {"a.o": Cost(1.5, 5)}),
        ([record("a.o", 5), record("a.o", 9, status=137)], {"a.o": Cost(1.5, 9)}),
        ([], {}),
    ],
)
def test_the_last_success_counts_and_a_larger_failure(records, expected):
    assert measured_costs(records) == expected


@pytest.mark.parametrize(("peak", "status", "learned"), [(3, 143, 5), (8, 137, 8), (3, 0, 3)])
def test_what_an_ended_job_held_does_not_take_the_place_of_what_it_is_known_to_need(peak, status, learned):
    known = {"a.o": Cost(9, 5), "b.o": Cost(1, 1)}
    assert measured_costs([record("a.o", peak, status=status)], known)["a.o"].bytes == learned
    assert known["a.o"].bytes == 5


def test_wrong_predictions_are_those_notably_above_and_the_worst_comes_first():
    records = [
        record("near.o", 109, expected_bytes=100, attempt=1),
        record("below.o", 50, expected_bytes=100, attempt=1),
        record("above.o", 120, expected_bytes=100, attempt=1),
        record("far.o", 300, expected_bytes=100, attempt=1, status=137),
        record("far.o", 310, expected_bytes=300, attempt=2),
        record("ungated.o", 300, expected_bytes=0, attempt=1),
    ]
    assert wrong_predictions(records) == [WrongPrediction("far.o", 100, 300), WrongPrediction("above.o", 100, 120)]


@pytest.mark.parametrize(
    ("output", "name"),
    [
        (ATTN, "CMakeFiles/_C.dir"),
        (RNN, "_deps/onednn-build/src/cpu/CMakeFiles/dnnl_cpu.dir"),
        ("_C.abi3.so", "link"),
        ("_deps/onednn-build/src/libdnnl.a", "link"),
    ],
)
def test_class(output, name):
    assert job_class(output) == name


def test_a_new_file_counts_as_the_largest_of_its_target():
    known = {ATTN: Cost(5, 900), NORM: Cost(70, 100), "_C.abi3.so": Cost(2, 40)}
    new, foreign, link = "CMakeFiles/_C.dir/csrc/new.cpp.o", "CMakeFiles/x.dir/y.o", "spinloop.abi3.so"
    expected = expected_costs([NORM, new, foreign, link], known, Cost(15, 7777))
    assert {output: (round(cost.seconds, 9), cost.bytes) for output, cost in expected.items()} == {
        NORM: (70, 100),
        new: (70, 900),
        foreign: (15, 7777),
        link: (2, 40),
    }


def test_no_two_files_are_expected_to_take_the_same_time():
    outputs = [f"CMakeFiles/_C.dir/{number}.cpp.o" for number in range(300)]
    expected = expected_costs(outputs, {outputs[7]: Cost(0.52, 1)}, Cost(15, 7777))
    seconds = [cost.seconds for cost in expected.values()]
    assert len(set(seconds)) == 300
    assert seconds == pytest.approx([0.52] * 300, abs=1e-9)


def test_the_seed_of_x86_knows_its_largest_file(project_root: Path):
    seed = read_costs(project_root / "measured" / "x86.tsv")
    largest = max(cost.bytes for cost in seed.values())
    assert largest < load_matrix(project_root).target("x86").worst_peak < 1.25 * largest
    assert {job_class(output) for output in seed} >= {"CMakeFiles/_C_AVX2.dir", "CMakeFiles/_C_AVX512.dir", "link"}


@pytest.mark.parametrize(
    ("note", "learned"),
    [("cache_miss direct_cache_miss", True), ("", True), ("direct_cache_hit", False), ("x direct_cache_hit", False)],
)
def test_what_a_cache_had_tells_nothing_about_the_cost(note: str, learned: bool):
    known = measured_costs([record(ATTN, 100, user=155), record(ATTN, 7, user=0.02, note=note)])
    assert known == {ATTN: Cost(0.52, 7) if learned else Cost(155.5, 100)}
