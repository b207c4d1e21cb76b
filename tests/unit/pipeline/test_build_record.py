from __future__ import annotations

import json
from pathlib import Path

import pytest

from cpuwheels.kernels.depfile import Reads
from cpuwheels.kernels.memory.admission import MemoryUse
from cpuwheels.kernels.memory.costs import WrongPrediction
from cpuwheels.kernels.memory.limits import JobPlan
from cpuwheels.kernels.result import Kernels
from cpuwheels.pipeline.build_record import (
    COMPILER_FACTS,
    alternates,
    compiled_record,
    compiler_note,
    precompiled_record,
    provenance,
    write_record,
)
from cpuwheels.source.acl import Acl
from cpuwheels.source.onednn import OneDnn
from cpuwheels.source.patched import PreparedSource
from cpuwheels.source.patches import AppliedPatch
from cpuwheels.source.result import Source
from kernel_request import environment, toolchain

SOURCE = Source("0.32.0", Path("/store/source"), "s" * 64, 1_700_000_000, "sdist from somewhere", "release")
PINNED = OneDnn(Path("/store/onednn"), "v3.13", "c" * 40, "c" * 40, "pinned")
ALTERNATE = OneDnn(Path("/store/onednn"), "v3.13", "3.7.2", "d" * 64, "alternate")
ACL = Acl(Path("/store/acl"), "v52.6.0", "e" * 40, "pinned", {})
WITHOUT = Acl(None, "v52.6.0", None, "absent", {})
JOBS = ({"output": "b.o", "peak": 2}, {"output": "a.o", "peak": 1}, {"peak": 3})
MEMORY = MemoryUse(2, 8 << 30, "physical memory", 7 << 30, "a group", 3 << 30, (WrongPrediction("a.o", 5, 9),))
READS = Reads(files=("csrc/a.cpp",), folders=("csrc",))
KERNELS = Kernels("key", Path("/store/kernels"), ("_C",), JOBS, built=True, memory=MEMORY, reads=READS)


def note(
    onednn: OneDnn = PINNED, source: Source = SOURCE, acl: Acl | None = ACL, chooser: str | None = None
) -> dict[str, object]:
    prepared = PreparedSource(
        "0.32.0", Path("/store/prepared"), 1, (AppliedPatch("0001-a.patch", "p" * 64, "applied"),)
    )
    return provenance("x86", source, prepared) | compiler_note(
        toolchain=toolchain(), environment=environment(), onednn=onednn, acl=acl, kernels=KERNELS.key, chooser=chooser,
    )  # fmt: skip


def test_the_note_in_the_wheel_names_every_input_by_content() -> None:
    text = json.dumps(note())
    for digest in (
        SOURCE.digest,
        "p" * 64,
        PINNED.digest,
        ACL.commit,
        toolchain().digest,
        environment().torch_digest,
        "key",
    ):
        assert digest in text


def test_the_note_in_the_wheel_holds_nothing_of_the_machine() -> None:
    assert "/store" not in json.dumps(note())
    assert "/env" not in json.dumps(note())
    assert "/tc" not in json.dumps(note())
    elsewhere = Source("0.32.0", Path("/other"), SOURCE.digest, SOURCE.epoch, "sdist from elsewhere", "release")
    assert note(source=elsewhere) == note()


def test_a_chooser_is_an_input_and_only_where_there_is_one() -> None:
    assert note(chooser="chosen") == note() | {"chooser_key": "chosen"}


@pytest.mark.parametrize(
    ("onednn", "acl", "said"),
    [
        (PINNED, None, []),
        (PINNED, ACL, []),
        (ALTERNATE, None, ["oneDNN 3.7.2 in place of v3.13"]),
        (PINNED, WITHOUT, ["no Arm Compute Library in place of v52.6.0"]),
    ],
)
def test_an_alternate_is_said(onednn: OneDnn, acl: Acl | None, said: list[str]) -> None:
    assert alternates(onednn, acl, environment()) == said
    assert note(onednn, acl=acl)["alternates"] == said


def test_what_became_of_arm_compute_library_is_said() -> None:
    assert note(acl=ACL)["acl"] == {"tag": "v52.6.0", "version": "e" * 40, "kind": "pinned"}
    assert note(acl=WITHOUT)["acl"] == {"tag": "v52.6.0", "version": None, "kind": "absent"}
    assert note(acl=None)["acl"] is None


def test_an_alternate_torch_is_said() -> None:
    debian = environment(torch_version="2.14.1", torch_from="locks/root.yaml", torch_alternate=True)
    assert alternates(None, None, debian) == ["torch 2.14.1 from locks/root.yaml"]


def test_the_record_has_what_a_person_asks_for(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_record(
        path, inputs=note(ALTERNATE), source=SOURCE, environment=environment(),
        made=compiled_record(
            toolchain(refused=("g++: GNU 12.2, older than 12.3",)), KERNELS,
            JobPlan(2, "CPUs", 8 << 30, "physical memory"),
        ),
        wheel={"file": "a.whl", "sha256": "w" * 64}, tried=[{"cpu": "max", "chosen": "_C_BF16"}],
        timings={"kernels": 1.23456}, announcements=["NOTE"], beside=["report.html", "operators.json"],
    )  # fmt: skip
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
    assert record["tools"]["cmake"] == "4.0.0"
    assert [job["peak"] for job in record["files"]] == [3, 1, 2]
    assert record["built"].endswith("+00:00")


def test_what_the_compiler_says_is_told_apart_from_what_the_source_says() -> None:
    prepared = PreparedSource("0.32.0", Path("/store/prepared"), 1, ())
    assert set(note(chooser="chosen")) - set(provenance("x86", SOURCE, prepared)) == set(COMPILER_FACTS)


def test_the_record_of_precompiled_kernels_names_their_wheel(tmp_path: Path) -> None:
    write_record(
        tmp_path / "record.json", inputs=note(), source=SOURCE, environment=environment(),
        made=precompiled_record("https://example.org/a.whl", "a.whl", "d" * 64), wheel={"file": "b.whl"}, tried=[],
        timings={}, announcements=[], beside=[],
    )  # fmt: skip
    record = json.loads((tmp_path / "record.json").read_text())
    assert record["precompiled"] == {"from": "https://example.org/a.whl", "wheel": "a.whl", "sha256": "d" * 64}
    assert record["jobs"] == {"compiled_in_this_run": False}
    assert record["install_check"] == "not run"
    assert "compilers" not in record
