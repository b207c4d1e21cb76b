"""One build behind the gate: what it is told, what is refused, and what is learned from it."""

from __future__ import annotations

import resource
from contextlib import nullcontext
from pathlib import Path

import psutil
import pytest

from cpuwheels.core.errors import MemoryCapError
from cpuwheels.kernels.memory.admission import (
    LAUNCHER_BYTES,
    NINJA_BYTES,
    SUPERVISOR_BYTES,
    CapPlan,
    Session,
    gate_session,
    most_launchers,
    open_gate,
)
from cpuwheels.kernels.memory.cgroup_limit import WATCH
from cpuwheels.kernels.memory.costs import Cost, WrongPrediction, read_costs, write_costs
from cpuwheels.kernels.memory.limits import JobPlan
from cpuwheels.kernels.memory.memgate import GateFolder
from ledger_records import job

GIB, MIB = 1 << 30, 1 << 20
ATTN, NORM = "CMakeFiles/_C.dir/csrc/cpu/cpu_attn.cpp.o", "CMakeFiles/_C.dir/csrc/cpu/layernorm.cpp.o"


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CapPlan:
    monkeypatch.setattr("cpuwheels.kernels.memory.cgroup_limit.groups", lambda _, __: [])
    memgate = tmp_path / "memgate"
    memgate.write_text(
        """#!/bin/sh\necho '{"running": 0, "waiting": 0, "bytes": 0, "peak_bytes": 123, "jobs": []}'\n"""
    )
    memgate.chmod(0o755)
    return CapPlan(
        jobs=JobPlan(2, "CPUs", 4 * GIB, "--memory 4G"),
        gate=GateFolder(tmp_path / "gate", memgate, "b1"),
        seed=tmp_path / "seed.tsv",
        learned=tmp_path / "measured" / "x86.tsv",
        worst_peak=2 * GIB,
    )


def told(plan: CapPlan) -> dict[str, str]:
    lines = (plan.gate.folder / "settings").read_text().splitlines()
    return dict(line.split(" ", 1) for line in lines)


def expected(plan: CapPlan) -> dict[str, tuple[float, int]]:
    rows = [line.split(" ", 2) for line in (plan.gate.folder / "expected").read_text().splitlines()]
    return {name: (float(seconds), int(size)) for seconds, size, name in rows}


def write_down(ledger: Path, output: str, peak: int, **more: object) -> None:
    record = job(output, 0, 1, peak=peak, user=2.0, system=0.5, expected_bytes=10 * MIB, **more)
    with ledger.open("a") as stream:
        stream.write(record.model_dump_json() + "\n")


def test_launchers_are_told_cap_cpus_and_costs(plan: CapPlan, tmp_path: Path):
    write_costs(plan.seed, {ATTN: Cost(155, 1000 * MIB), NORM: Cost(7, 100 * MIB)})
    write_costs(plan.learned, {NORM: Cost(9, 200 * MIB), "_C.abi3.so": Cost(1, 50 * MIB)})
    new = "CMakeFiles/_C_AVX2.dir/new.cpp.o"
    with gate_session(plan, [ATTN, NORM, new], tmp_path / "jobs.jsonl") as session:
        settings = told(plan)
        assert (settings["cpus"], settings["watch"]) == ("2", "1")
        assert 3 * GIB < int(settings["bytes"]) < 4 * GIB
        assert int(settings["bytes"]) == session.room
        assert int(settings["unknown_bytes"]) == 2 * GIB
        assert "oom_events" not in settings
        assert expected(plan) == {
            ATTN: (155, 1020 * MIB),
            NORM: (9, 204 * MIB),
            "_C.abi3.so": (1, 51 * MIB),
            new: (15, int(2 * GIB * 1.02)),
        }
        assert session.links == {"_C.abi3.so": Cost(1, 50 * MIB)}
        assert session.command(["ninja", "-j1"]) == ["ninja", "-j1"]
        assert session.use is None
    assert session.use is not None
    assert (session.use.cap, session.use.where, session.use.peak) == (4 * GIB, "--memory 4G", 123)
    assert session.use.how == WATCH.how


def test_what_was_measured_is_known_next_time(plan: CapPlan, tmp_path: Path):
    ledger = tmp_path / "jobs.jsonl"
    write_costs(plan.learned, {NORM: Cost(9, 200 * MIB), ATTN: Cost(1, 1)})
    write_down(ledger, "before.o", 77 * MIB)
    sessions: list[Session] = []

    def fail() -> None:
        with gate_session(plan, [NORM], ledger) as session:
            sessions.append(session)
            assert session.records() == ()
            write_down(ledger, NORM, 300 * MIB)
            assert [record.output for record in session.records()] == [NORM]
            ledger.write_text(ledger.read_text() + 'garbage\n{"output": \n')
            write_down(ledger, "x.o", 20 * MIB, status=1)
            raise RuntimeError("the compiler found an error")

    with pytest.raises(RuntimeError, match="the compiler found an error"):
        fail()
    assert read_costs(plan.learned) == {NORM: Cost(2.5, 300 * MIB), ATTN: Cost(1, 1), "x.o": Cost(2.5, 20 * MIB)}
    (use,) = [session.use for session in sessions]
    assert use is not None
    assert use.wrong == (WrongPrediction(NORM, 10 * MIB, 300 * MIB), WrongPrediction("x.o", 10 * MIB, 20 * MIB))


def test_a_file_that_cannot_fit_is_refused_by_name(plan: CapPlan, tmp_path: Path):
    write_costs(plan.learned, {ATTN: Cost(155, 4 * GIB - 10 * MIB), NORM: Cost(7, 100 * MIB)})
    with pytest.raises(MemoryCapError) as fault, gate_session(plan, [ATTN, NORM], tmp_path / "jobs.jsonl"):
        pass
    assert ATTN in fault.value.what
    assert fault.value.where == "--memory 4G"
    assert "allow at least 4." in fault.value.next_step


def limit() -> int:
    """Return what is left of the cap beside this process, which grows a little meanwhile."""
    return 4 * GIB - psutil.Process().memory_info().rss - SUPERVISOR_BYTES


NEAR = 8 * MIB


def test_ninja_and_all_launchers_have_their_part_of_the_cap(
    plan: CapPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (65_536, 65_536))
    files = [f"{number}.o" for number in range(1500)]
    with gate_session(plan, files, tmp_path / "jobs.jsonl") as session:
        assert session.window == 1564
        assert session.room == pytest.approx(limit() - NINJA_BYTES - 1564 * LAUNCHER_BYTES, abs=NEAR)
        assert int(told(plan)["bytes"]) == session.room
    assert session.finished().room == session.room


def test_a_file_has_to_fit_beside_ninja_and_the_launchers(plan: CapPlan, tmp_path: Path):
    taken = NINJA_BYTES + 65 * LAUNCHER_BYTES
    for size, fits in ((limit() - taken - 2 * NEAR, True), (limit() - taken + 2 * NEAR, False)):
        write_costs(plan.learned, {ATTN: Cost(155, size)})
        with nullcontext() if fits else pytest.raises(MemoryCapError), gate_session(plan, [ATTN], tmp_path / "j.jsonl"):
            pass


def test_a_file_that_is_not_made_does_not_count(plan: CapPlan, tmp_path: Path):
    write_costs(plan.learned, {ATTN: Cost(155, 40 * GIB)})
    with gate_session(plan, ["CMakeFiles/x.dir/y.o"], tmp_path / "jobs.jsonl"):
        pass


def test_configuring_runs_behind_the_gate_too(plan: CapPlan):
    open_gate(plan)
    assert int(told(plan)["unknown_bytes"]) < GIB
    assert int(told(plan)["bytes"]) == pytest.approx(limit(), abs=NEAR)
    assert expected(plan) == {}


@pytest.mark.parametrize(("files", "limit", "most"), [(500, 20_000, 564), (500, 256, 192), (50_000, 65_536, 2000)])
def test_most_launchers(monkeypatch, files, limit, most):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert most_launchers(files) == most


def test_most_launchers_without_a_limit(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert most_launchers(100) == 164


def test_a_record_after_one_that_was_cut_short_is_not_lost(plan: CapPlan, tmp_path: Path):
    ledger = tmp_path / "jobs.jsonl"
    write_down(ledger, "before.o", 77 * MIB)
    ledger.write_text(ledger.read_text() + '{"output": "half')
    with gate_session(plan, [NORM], ledger):
        write_down(ledger, NORM, 300 * MIB)
    assert read_costs(plan.learned) == {NORM: Cost(2.5, 300 * MIB)}
