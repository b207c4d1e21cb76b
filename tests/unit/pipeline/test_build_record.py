from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from cpuwheels.core.elsewhere import Origin
from cpuwheels.kernels.depfile import Reads
from cpuwheels.kernels.memory.admission import MemoryUse
from cpuwheels.kernels.memory.costs import WrongPrediction
from cpuwheels.kernels.memory.limits import JobPlan
from cpuwheels.kernels.result import Kernels
from cpuwheels.pipeline.build_record import compiled_record, precompiled_record, write_record
from cpuwheels.sandbox.mechanism import Mechanism
from cpuwheels.source.result import Source
from kernel_request import environment, toolchain
from ledger_records import job
from wheel_notes import wheel_note as whole_note

SOURCE = Source("0.32.0", Path("/store/source"), "s" * 64, 1_700_000_000, "sdist from somewhere", "release")
JOBS = (job("b.o", 0, 1), job("a.o", 1, 1))
MEMORY = MemoryUse(2, 8 << 30, "physical memory", 7 << 30, "a group", 3 << 30, (WrongPrediction("a.o", 5, 9),))
READS = Reads(files=("csrc/a.cpp",), folders=("csrc",))
KERNELS = Kernels("key", Path("/store/kernels"), ("_C",), JOBS, built=True, memory=MEMORY, reads=READS)


MADE_FROM = whole_note(alternates=("oneDNN 3.7.2 in place of v3.13",))


def test_the_record_has_what_a_person_asks_for(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_record(
        path,
        provenance=MADE_FROM,
        wheel_key="w",
        source=SOURCE,
        environment=environment(),
        made=compiled_record(
            toolchain(refused=("g++: GNU 12.2, older than 12.3",)),
            KERNELS,
            JobPlan(2, "CPUs", 8 << 30, "physical memory"),
        ),
        sandbox=Mechanism("landlock", "no namespaces"),
        wheel={"file": "a.whl", "sha256": "w" * 64},
        tried=[{"cpu": "max", "chosen": "_C_BF16"}],
        timings={"kernels": 1.23456},
        announcements=["NOTE"],
        beside=["report.html", "operators.json"],
    )
    record = json.loads(path.read_text())
    assert record["wheel"]["file"] == "a.whl"
    assert record["tried"] == [{"cpu": "max", "chosen": "_C_BF16"}]
    assert record["alternates"] == ["oneDNN 3.7.2 in place of v3.13"]
    assert record["seconds"] == {"kernels": 1.23}
    assert record["jobs"] == {"at_once": 2, "reason": "CPUs", "compiled_in_this_run": True}
    assert record["compilers"]["refused"] == ["g++: GNU 12.2, older than 12.3"]
    assert record["origin"]["source"] == "sdist from somewhere"
    assert record["notes"] == ["NOTE"]
    assert record["beside"] == ["operators.json", "report.html"]
    assert record["memory"]["peak"] == 3 << 30
    assert record["sandbox"] == {"mechanism": "Landlock and a filter of system calls", "reason": "no namespaces"}
    assert record["tools"]["cmake"] == "4.0.0"
    assert [job["output"] for job in record["files"]] == ["a.o", "b.o"]
    assert record["built"].endswith("+00:00")


def test_kernels_of_a_shared_store_name_it_without_credentials(tmp_path: Path) -> None:
    origin = Origin("https://user:secret@host/store", "9" * 64, "key")
    shared = replace(KERNELS, built=False, origin=origin)
    plan = JobPlan(2, "CPUs", 8 << 30, "physical memory")
    write_record(
        tmp_path / "record.json",
        provenance=MADE_FROM,
        wheel_key="w",
        source=SOURCE,
        environment=environment(),
        made=compiled_record(toolchain(), shared, plan),
        sandbox=Mechanism("none", "too old"),
        wheel={"file": "b.whl"},
        tried=[],
        timings={},
        announcements=[],
        beside=[],
    )
    record = json.loads((tmp_path / "record.json").read_text())
    assert record["shared"] == {"place": "https://host/store", "sha256": "9" * 64, "signer": "key"}
    assert not record["jobs"]["compiled_in_this_run"]
    assert "shared" not in compiled_record(toolchain(), KERNELS, plan)


def test_the_record_of_precompiled_kernels_names_their_wheel(tmp_path: Path) -> None:
    write_record(
        tmp_path / "record.json",
        provenance=MADE_FROM,
        wheel_key="w",
        source=SOURCE,
        environment=environment(),
        made=precompiled_record("https://example.org/a.whl", "a.whl", "d" * 64),
        sandbox=Mechanism("none", "too old"),
        wheel={"file": "b.whl"},
        tried=[],
        timings={},
        announcements=[],
        beside=[],
    )
    record = json.loads((tmp_path / "record.json").read_text())
    assert record["precompiled"] == {"from": "https://example.org/a.whl", "wheel": "a.whl", "sha256": "d" * 64}
    assert record["jobs"] == {"compiled_in_this_run": False}
    assert record["install_check"] == "not run"
    assert "compilers" not in record
