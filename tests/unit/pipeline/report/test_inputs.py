"""The list of inputs: versions, digests, and which of them are fallbacks."""

from __future__ import annotations

from pathlib import Path

from cpuwheels.pipeline.recorded_build import read_record
from cpuwheels.pipeline.report.inputs import Input, inputs_of
from recorded_wheel import write_build
from wheel_notes import wheel_note

ONEDNN = {"tag": "v3.13", "version": "3.7.2", "digest": "o", "kind": "alternate"}
ACL = {"tag": "v52", "version": None, "kind": "absent"}


def test_fallbacks_are_marked() -> None:
    its = {"file": "0009-its.patch", "sha256": "q", "state": "applied"}
    note = wheel_note(
        onednn=ONEDNN | {"patches": [its]},
        acl=ACL,
        tcmalloc={"version": "2.16", "digest": "g", "key": "k"},
        patches=[{"file": "0001-a.patch", "sha256": "p", "state": "applied"}],
        alternates=("torch 2.0 from Debian", "oneDNN 3.7.2 in place of v3.13"),
    )
    assert inputs_of(note) == [
        Input("vLLM", "1", "s"),
        Input("compiler", "GNU 14", "t"),
        Input("torch", "2.0", "u", fallback=True),
        Input("oneDNN", "3.7.2", "o", "in place of v3.13", fallback=True),
        Input("Arm Compute Library", "none", "", "absent", fallback=True),
        Input("tcmalloc", "2.16", "g", "gperftools"),
        Input("0001-a.patch", "applied", "p", "patch"),
        Input("0009-its.patch", "applied", "q", "patch"),
    ]


def test_first_choices_are_not(tmp_path: Path) -> None:
    write_build(tmp_path, facts={"onednn": ONEDNN | {"version": "3.13", "kind": "pinned"}, "commit": "c" * 40})
    record = read_record(tmp_path)
    found = inputs_of(record, record)
    assert not any(one.fallback for one in found)
    assert found[0] == Input("vLLM", f"1 at commit {'c' * 40}", "s", "sdist from somewhere")
