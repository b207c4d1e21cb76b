"""memgate's ledger as it is read back: whole records only, whatever a kill or another program left in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpuwheels.kernels.memory.ledger import ledger_size, read_records
from ledger_records import job

if TYPE_CHECKING:
    from pathlib import Path

A, B, C = (job(f"{name}.o", 0, 1).model_dump_json() for name in "abc")


@pytest.mark.parametrize(
    ("text", "outputs"),
    [
        ("", ""),
        (f"{A}\n{B}\n", "ab"),
        (f"{A}\n{B[:40]}", "a"),
        (f'garbage\n\n[1]\n"x"\n7\nnull\n{A}\n', "a"),
        (f"{A}{B}\n{C}\n", "c"),
        (f"\x00\x00\x00\n{B}\n", "b"),
        (f"{A}\n{B.replace('b.o', '')}\n", "a"),
        (f"{A.replace('1000.0', 'true')}\n{B}\n", "b"),
        ('{"output": "a.o"}\n', ""),
    ],
    ids=["empty", "good", "cut short", "garbage", "run together", "zeros", "no name", "no number", "half a record"],
)
def test_what_cannot_be_read_of_a_ledger_is_passed_over(tmp_path: Path, text: str, outputs: str) -> None:
    (tmp_path / "jobs.jsonl").write_text(text)
    assert [record.output for record in read_records(tmp_path / "jobs.jsonl")] == [f"{name}.o" for name in outputs]


def test_a_ledger_that_is_not_there_or_not_text_is_empty(tmp_path: Path) -> None:
    assert read_records(tmp_path / "gone") == ()
    (tmp_path / "jobs.jsonl").write_bytes(b"\xff\xfe\n")
    assert read_records(tmp_path / "jobs.jsonl") == ()


def test_records_of_an_earlier_run_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "jobs.jsonl"
    assert ledger_size(path) == 0
    path.write_text(f"{A}\n")
    since = ledger_size(path)
    path.write_text(f"{A}\n{B}\n")
    assert [record.output for record in read_records(path, since)] == ["b.o"]
    assert [record.output for record in read_records(path)] == ["a.o", "b.o"]


def test_what_a_newer_memgate_adds_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "jobs.jsonl").write_text(A.replace("{", '{"swapped_bytes": 5, ', 1) + "\n")
    (record,) = read_records(tmp_path / "jobs.jsonl")
    assert record == job("a.o", 0, 1)


def test_cpu_time_memory_and_hits() -> None:
    record = job("a.o", 0, 10, peak=5, tree_bytes=9, note="direct_cache_hit")
    assert (record.cpu_seconds, record.bytes, record.cached) == (10.0, 9, True)
    assert not job("a.o", 0, 1).cached
