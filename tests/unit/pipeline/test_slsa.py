"""The provenance of a wheel: made from its record alone, and a statement as the specifications want it."""

from __future__ import annotations

import hashlib
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from sigstore.dsse import Statement as SigstoresStatement

from cpuwheels.core.errors import WheelError
from cpuwheels.pipeline.in_toto import ProvenanceStatement
from cpuwheels.pipeline.slsa import SUFFIX, Platform, statement_of, write_statement
from layout import TESTS
from recorded_wheel import write_build
from sample_source import sha256

SCHEMA = Draft202012Validator(json.loads((TESTS / "data" / "schemas" / "slsa-provenance-statement.json").read_text()))


def statement(wheel: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(wheel.with_name(f"{wheel.name}{SUFFIX}").read_text())
    return found


def faults(data: dict[str, Any]) -> list[str]:
    return [fault.message for fault in SCHEMA.iter_errors(data)]


def test_it_fits_the_specifications_and_another_reader(tmp_path: Path) -> None:
    wheel = write_build(tmp_path)
    found = statement(wheel)
    assert faults(found) == []
    assert SigstoresStatement(json.dumps(found).encode())._inner.predicate == found["predicate"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("_type", "https://in-toto.io/Statement/v0.1"),
        ("subject", []),
        ("subject.0.digest.sha256", "F" * 64),
        ("predicate.buildDefinition.buildType", "no uri"),
        ("predicate.buildDefinition.resolvedDependencies.0", {"name": "nothing that says which"}),
        ("predicate.runDetails.builder", {}),
        ("predicate.runDetails.metadata.finishedOn", "2026-11-26T04:49:41+00:00"),
        ("predicate.runDetails.byproduct", []),
    ],
)
def test_the_schema_finds_what_is_wrong(tmp_path: Path, path: str, value: Any) -> None:
    found = statement(write_build(tmp_path))
    place: Any = found
    *way, last = path.split(".")
    for part in way:
        place = place[int(part)] if part.isdigit() else place[part]
    place[int(last) if last.isdigit() else last] = value
    assert faults(found)


def test_it_is_about_the_wheel_and_says_what_was_asked_for(tmp_path: Path) -> None:
    wheel = write_build(tmp_path, asked={"locked": True, "source_date_epoch": 5, "kernels_from": "a.whl"})
    found = statement(wheel)
    assert found["subject"] == [{"name": wheel.name, "digest": {"sha256": sha256(wheel)}}]
    assert found["predicate"]["buildDefinition"]["externalParameters"] == {
        "kernelsFrom": "a.whl",
        "locked": True,
        "source": "0.32.0",
        "sourceDateEpoch": 5,
        "target": "x86",
        "toolchain": "auto",
    }


def test_every_dependency_is_there_with_what_names_it(tmp_path: Path) -> None:
    found = statement(write_build(tmp_path))["predicate"]["buildDefinition"]["resolvedDependencies"]
    source, patch, onednn, compiler, libc = found
    assert source["downloadLocation"] == "https://files.example.org/vllm-0.32.0.tar.gz"
    assert source["annotations"] == {"stage": "source", "version": "0.32.0", "size": 44_549_956}
    assert patch == {
        "name": "patches/0001-cpuinfo.patch",
        "digest": {"sha256": "e" * 64},
        "annotations": {"stage": "patch"},
    }
    assert onednn["uri"].startswith("git+https://github.com/uxlfoundation/oneDNN.git@")
    # The bytes of a compiler of the machine are not known, and the statement does not say otherwise.
    assert (compiler["uri"], "digest" in compiler) == ("urn:cpuwheels:key:aaaaaaaaaaaaaaaaaaaaaaaa", False)
    assert libc["digest"] == {"sha256": "b" * 64}


def test_byproducts_are_the_record_what_lies_beside_it_and_the_logs(tmp_path: Path) -> None:
    wheel = write_build(tmp_path)
    run = statement(wheel)["predicate"]["runDetails"]
    digests = {one["name"]: one["digest"]["sha256"] for one in run["byproducts"]}
    record = sha256(tmp_path / "record.json")
    operators = sha256(tmp_path / "operators.json")
    assert digests == {"logs/wheel.log": "1" * 64, "operators.json": operators, "record.json": record}
    assert run["metadata"]["invocationId"] == f"sha256:{record}"
    assert run["builder"]["id"] == "urn:cpuwheels:builder:local"


def test_it_is_the_same_made_again_from_the_record_alone(tmp_path: Path) -> None:
    wheel = write_build(tmp_path / "built")
    (tmp_path / "other").mkdir()
    record = (tmp_path / "built" / "record.json").read_bytes()
    (tmp_path / "other" / "record.json").write_bytes(record)
    again = write_statement(tmp_path / "other")
    assert again.name == f"{wheel.name}{SUFFIX}"
    assert again.read_bytes() == wheel.with_name(again.name).read_bytes()
    assert ProvenanceStatement.model_validate_json(again.read_bytes()).render() == again.read_bytes()


def test_a_platform_names_itself_and_its_run(tmp_path: Path) -> None:
    write_build(tmp_path)
    record = (tmp_path / "record.json").read_bytes()
    platform = Platform(
        "https://github.com/a/b/.github/workflows/c.yml@refs/heads/main", "https://github.com/a/b/runs/1"
    )
    found = json.loads(statement_of(record, tmp_path, platform).render())
    assert faults(found) == []
    assert found["predicate"]["runDetails"]["builder"]["id"] == platform.builder
    assert found["predicate"]["runDetails"]["metadata"]["invocationId"] == platform.invocation


def test_nothing_of_the_machine_is_in_it(tmp_path: Path) -> None:
    wheel = write_build(tmp_path)
    text = wheel.with_name(f"{wheel.name}{SUFFIX}").read_text()
    machine = json.loads((tmp_path / "record.json").read_text())["machine"]["system"]
    assert str(tmp_path) not in text
    assert machine.partition(" ")[2] not in text


@pytest.mark.parametrize("missing", ["parameters", "dependencies"])
def test_a_record_that_tells_no_inputs_gives_none(tmp_path: Path, missing: str) -> None:
    write_build(tmp_path)
    record = json.loads((tmp_path / "record.json").read_text())
    record.pop(missing)
    with pytest.raises(WheelError, match="does not say what the wheel was made from") as raised:
        statement_of(json.dumps(record).encode(), tmp_path)
    assert raised.value.next_step


def test_a_record_with_what_is_no_uri_gives_none(tmp_path: Path) -> None:
    write_build(tmp_path)
    record = json.loads((tmp_path / "record.json").read_text())
    record["dependencies"][0]["uri"] = "no uri"
    with pytest.raises(WheelError, match="says what no provenance can: uri"):
        statement_of(json.dumps(record).encode(), tmp_path)


def test_it_is_never_there_in_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = write_build(tmp_path)
    path = wheel.with_name(f"{wheel.name}{SUFFIX}")
    whole = path.read_bytes()

    def cut(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", cut)
    with pytest.raises(OSError, match="No space"):
        write_statement(tmp_path)
    assert path.read_bytes() == whole
    assert stat.S_ISREG(path.lstat().st_mode)
    assert hashlib.sha256(whole).hexdigest() == sha256(path)
