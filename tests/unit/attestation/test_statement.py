"""Statements of others: everything that is not what it has to be is one message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.attestation.files import read_beside
from cpuwheels.attestation.statement import PUBLISH, check_statement
from cpuwheels.core.errors import ProvenanceError
from cpuwheels.pipeline.in_toto import ProvenanceStatement
from cpuwheels.pipeline.slsa import SUFFIX
from sample_source import sha256


def check(wheel: Path, **changes: Any) -> object:
    data = json.loads(read_beside(wheel, SUFFIX) or b"")
    for name, value in changes.items():
        place: Any = data
        *way, last = name.split("__")
        for part in way:
            place = place[part]
        if value is None:
            del place[last]
        else:
            place[last] = value
    return check_statement(json.dumps(data).encode(), wheel.name, sha256(wheel), "here")


def test_a_right_one_comes_back(wheel: Path) -> None:
    assert isinstance(check(wheel), ProvenanceStatement)
    assert check(wheel, predicateType=PUBLISH, predicate=None)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"_type": "https://in-toto.io/Statement/v0.1"}, "it is no statement: _type"),
        ({"predicateType": "https://example.org/other"}, "its type is https://example.org/other"),
        ({"predicateType": None}, "it is no statement: predicateType"),
        ({"subject": []}, "it is no statement: subject"),
        ({"subject": [{"name": "b.whl", "digest": {"sha256": "0" * 64}}]}, "it is about b.whl with sha256 000"),
        ({"predicate": {}}, "it is no statement: predicate.buildDefinition"),
        ({"predicate__buildDefinition__buildType": "urn:other"}, "its build type is urn:other"),
        ({"predicate__buildDefinition__externalParameters__run": "curl"}, "does not know: run"),
        ({"predicate__buildDefinition": None, "predicate__build_definition": {}}, "predicate.buildDefinition"),
        ({"predicate__runDetails__builder": {"id": "nobody"}}, "predicate.runDetails.builder.id"),
    ],
)
def test_another_is_refused(wheel: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ProvenanceError, match=r"the statement is refused: ") as raised:
        check(wheel, **changes)
    assert words in raised.value.what
    assert raised.value.where == "here"
    assert raised.value.next_step


def test_two_subjects_are_refused(wheel: Path) -> None:
    data = json.loads(read_beside(wheel, SUFFIX) or b"")
    with pytest.raises(ProvenanceError, match=r"it is about .*, b.whl with"):
        check(wheel, subject=[*data["subject"], {"name": "b.whl", "digest": {"sha256": "0" * 64}}])


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"_type": NaN}', b'{"a": 1, "a": 1}', b"\xff", b"[" * 5000])
def test_what_is_no_json_object_is_refused(wheel: Path, content: bytes) -> None:
    with pytest.raises(ProvenanceError, match=r"the statement is refused"):
        check_statement(content, wheel.name, sha256(wheel), "here")


def test_what_is_no_file_is_refused(wheel: Path) -> None:
    path = wheel.with_name(f"{wheel.name}{SUFFIX}")
    path.rename(wheel.with_name("elsewhere"))
    path.symlink_to("elsewhere")
    with pytest.raises(ProvenanceError, match=r"cannot be read: it is a symbolic link"):
        read_beside(wheel, SUFFIX)
