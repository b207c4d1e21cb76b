"""Jobs over time, and the best that could have been."""

from __future__ import annotations

import json

import pytest

from cpuwheels.kernels.memory.ledger import JobRecord
from cpuwheels.pipeline.report.timeline import largest, read_timeline, slowest
from cpuwheels.pipeline.report.trace import chrome_trace
from ledger_records import RECORDS, job


def test_bars():
    timeline = read_timeline(RECORDS)
    assert [(bar.group, bar.name) for bar in timeline.bars] == [
        ("_C", "csrc/cpu/a.cpp"),
        ("dnnl_cpu", "rnn/ref.cpp"),
        ("_C", "csrc/cpu/b.cpp"),
        ("link", "_C.abi3.so"),
    ]
    assert (timeline.began, timeline.seconds, timeline.lanes) == (1000.0, 12.0, 2)
    assert timeline.bars[0].bytes == 250
    assert timeline.bars[2].start == 4
    assert timeline.bars[2].cpu == pytest.approx(6)


def test_bound():
    bound = read_timeline(RECORDS).bound(cpus=2, room=500)
    assert bound.work == pytest.approx(11)
    assert bound.longest == pytest.approx(10)
    assert bound.area == pytest.approx((6 * 300 + 10 * 250 + 4 * 100 + 2 * 50) / 500)
    assert bound.seconds == pytest.approx(11)


def test_memory_over_time():
    assert read_timeline(RECORDS).memory() == [(0, 350), (4, 550), (10, 50), (12, 0)]


def test_what_is_not_a_job_is_left_out():
    probe = job("CMakeFiles/cmTC_0a1b2.dir/src.cxx.o", -5, 1)
    timeline = read_timeline([probe, *RECORDS])
    assert len(timeline.bars) == len(RECORDS)
    assert timeline.began == 1000.0


def test_nothing_at_all():
    timeline = read_timeline([])
    assert (timeline.bars, timeline.seconds, timeline.lanes) == ((), 0.0, 0)
    assert timeline.bound(2, 10).seconds == 0
    assert timeline.memory() == []


def test_a_ledger_without_a_gate_has_one_lane():
    text = RECORDS[0].model_dump_json(include={"output", "start", "wall", "user", "system", "peak_bytes", "status"})
    (bar,) = read_timeline([JobRecord.model_validate_json(text)]).bars
    assert (bar.lane, bar.attempt, bar.bytes) == (0, 1, 300)


def test_what_came_out_of_the_cache_is_marked():
    bars = read_timeline(
        [RECORDS[0], RECORDS[1].model_copy(update={"note": "direct_cache_hit local_storage_hit"})]
    ).bars
    assert {bar.output: bar.cached for bar in bars} == {RECORDS[0].output: False, RECORDS[1].output: True}


def test_order_of_the_tables():
    bars = read_timeline(RECORDS).bars
    assert [bar.bytes for bar in largest(bars, 2)] == [300, 250]
    assert [bar.name for bar in slowest(bars, 1)] == ["csrc/cpu/a.cpp"]


def test_trace():
    trace = json.loads(chrome_trace(read_timeline(RECORDS), "a title"))
    events = trace["traceEvents"]
    complete = [event for event in events if event["ph"] == "X"]
    assert [(event["tid"], event["ts"], event["dur"]) for event in complete] == [
        (0, 0, 10_000_000),
        (1, 0, 4_000_000),
        (1, 4_000_000, 6_000_000),
        (0, 10_000_000, 2_000_000),
    ]
    assert complete[0]["args"]["peak_bytes"] == 250
    assert [event["args"]["bytes"] for event in events if event["ph"] == "C"] == [350, 550, 50, 0]
    names = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert names == {"a title", "CPU slot 0", "CPU slot 1"}
