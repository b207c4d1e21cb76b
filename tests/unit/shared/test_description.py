"""Descriptions: what was asked for, of this type, and signed by somebody who is trusted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.attestation.envelope import sign_envelope
from cpuwheels.core.errors import ProvenanceError
from cpuwheels.core.trust import Trust
from cpuwheels.shared.description import describe, description_path, folder_of, read_description, render
from shared_stores import KERNELS, new_signer

SHA256, TREE = "a" * 64, "b" * 64
DESCRIBED = describe("kernels", KERNELS, Trust.COMMIT, sha256=SHA256, size=7, tree=TREE)


def read(content: bytes, keys: list[Any] | None = None) -> Any:
    return read_description(content, "kernels", KERNELS, Trust.COMMIT, keys)


def test_it_comes_back_as_it_was(tmp_path: Path) -> None:
    signer, key = new_signer(tmp_path, "key")
    assert read(render(DESCRIBED, None)).described == DESCRIBED
    found = read(render(DESCRIBED, signer), [key])
    assert (found.described, found.signer) == (DESCRIBED, key.keyid)
    assert read(render(DESCRIBED, signer)).signer == "", "nobody looked"


def test_where_it_lies() -> None:
    assert folder_of("kernels", KERNELS, Trust.RELEASE) == f"v1/kernels/{KERNELS}"
    assert description_path("kernels", KERNELS, Trust.COMMIT) == f"v1/from-commits/kernels/{KERNELS}/description.json"
    assert DESCRIBED.object == f"v1/from-commits/kernels/{KERNELS}/{SHA256}.tar.gz"


def test_an_unsigned_one_is_not_signed(tmp_path: Path) -> None:
    _, key = new_signer(tmp_path, "key")
    with pytest.raises(ProvenanceError):
        read(render(DESCRIBED, None), [key])


def test_a_changed_one_is_not_signed(tmp_path: Path) -> None:
    signer, key = new_signer(tmp_path, "key")
    envelope = json.loads(render(DESCRIBED, signer))
    other = describe("kernels", KERNELS, Trust.COMMIT, sha256="c" * 64, size=7, tree=TREE)
    envelope["payload"] = json.loads(render(other, signer))["payload"]
    with pytest.raises(ProvenanceError, match="no key that is trusted"):
        read(json.dumps(envelope).encode(), [key])


def test_another_statement_of_a_trusted_key_is_none(tmp_path: Path) -> None:
    signer, key = new_signer(tmp_path, "key")
    statement = json.loads(DESCRIBED.statement())
    statement["predicateType"] = "https://slsa.dev/provenance/v1"
    with pytest.raises(ProvenanceError, match=r"its type is https://slsa\.dev/provenance/v1"):
        read(sign_envelope(json.dumps(statement).encode(), signer), [key])


@pytest.mark.parametrize(
    ("kind", "key", "trust"),
    [("kernels", "f" * 24, Trust.COMMIT), ("onednn", KERNELS, Trust.COMMIT), ("kernels", KERNELS, Trust.RELEASE)],
)
def test_it_describes_what_was_asked_for(kind: str, key: str, trust: Trust) -> None:
    with pytest.raises(ProvenanceError, match=f"it describes from-commits/kernels/{KERNELS}"):
        read_description(render(DESCRIBED, None), kind, key, trust, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"sha256": "../../x"},
        {"size": 0},
        {"size": 1 << 40},
        {"size": "7"},
        {"size": True},
        {"tree": "x"},
        {"key": "../" + "c" * 21},
        {"kind": "a/b"},
        {"trust": "from-trees"},
        {"cpuwheels": "x" * 1000},
    ],
)
def test_what_has_no_such_form_is_refused(changes: dict[str, Any]) -> None:
    statement = json.loads(DESCRIBED.statement())
    if "sha256" in changes:
        statement["subject"][0]["digest"] = changes
    else:
        statement["predicate"] |= changes
    with pytest.raises(ProvenanceError, match="the description is refused"):
        read(json.dumps(statement).encode())


def test_of_a_later_version_more_may_be_said() -> None:
    statement = json.loads(DESCRIBED.statement())
    statement["predicate"]["more"] = statement["more"] = [1]
    assert read(json.dumps(statement).encode()).described == DESCRIBED


def test_it_has_one_subject() -> None:
    statement = json.loads(DESCRIBED.statement())
    statement["subject"] *= 2
    with pytest.raises(ProvenanceError):
        read(json.dumps(statement).encode())


def test_a_name_that_no_entry_has_is_not_described() -> None:
    with pytest.raises(ValueError, match="key"):
        describe("kernels", "../x", Trust.RELEASE, sha256=SHA256, size=1, tree=TREE)
