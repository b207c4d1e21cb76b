"""What a rebuilder states: about the published bytes, and with no result but that of the digests."""

from __future__ import annotations

import json

import pytest

from cpuwheels.core.errors import ProvenanceError
from cpuwheels.rebuild.statement import POLICY, VSA, check_rebuild
from rebuild_statements import NAME, OTHER, SHA256, details, statement


def test_it_has_the_fields_of_slsas_summary() -> None:
    data = json.loads(statement(details()).render())
    assert data["_type"] == "https://in-toto.io/Statement/v1"
    assert data["predicateType"] == VSA
    assert data["subject"] == [{"name": NAME, "digest": {"sha256": SHA256}}]
    predicate = data["predicate"]
    assert predicate.keys() == {
        *("verifier", "timeVerified", "resourceUri", "policy", "inputAttestations", "verificationResult"),
        *("verifiedLevels", "slsaVersion", "cpuwheels_rebuild"),
    }
    assert predicate["verifier"]["id"] == "https://r.example.org"
    assert predicate["policy"] == {"uri": POLICY}
    assert predicate["resourceUri"].startswith("pkg:pypi/vllm@0.32.0%2Bcpu?file_name=")
    assert (predicate["verificationResult"], predicate["verifiedLevels"]) == ("PASSED", ["CPUWHEELS_REPRODUCED"])
    assert predicate["cpuwheels_rebuild"]["pinned"][0]["digest"] == {"sha256": "9" * 64}


def test_another_digest_is_a_failure_that_names_it() -> None:
    found = json.loads(statement(details(OTHER, differing=("vllm/_C.so",))).render())["predicate"]
    assert (found["verificationResult"], found["verifiedLevels"]) == ("FAILED", ["FAILED"])
    assert found["cpuwheels_rebuild"]["rebuilt"]["digest"] == {"sha256": OTHER}
    assert found["cpuwheels_rebuild"]["differing"] == ["vllm/_C.so"]


def test_what_is_written_is_read_back_and_ignores_what_it_does_not_know() -> None:
    for sha256 in (SHA256, OTHER):
        made = statement(details(sha256))
        assert check_rebuild(made.render(), NAME, SHA256, "here") == made
    data = json.loads(statement(details()).render())
    data["predicate"]["more"] = data["predicate"]["cpuwheels_rebuild"]["more"] = {"a": 1}
    assert check_rebuild(json.dumps(data).encode(), NAME, SHA256, "here").predicate.details.result == "reproduced"


def changed(sha256: str, *path: str, value: object) -> bytes:
    data = json.loads(statement(details(sha256)).render())
    place = data
    for part in path[:-1]:
        place = place[int(part) if part.isdecimal() else part]
    place[path[-1]] = value
    return json.dumps(data).encode()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{", "it is not"),
        (b"[]", "it is none"),
        (changed(SHA256, "subject", "0", "name", value="other.whl"), "it is about other.whl"),
        (changed(SHA256, "subject", "0", "digest", value={"sha256": OTHER}), "it is about"),
        (changed(SHA256, "predicateType", value="https://slsa.dev/provenance/v1"), "predicateType"),
        (changed(SHA256, "predicate", "policy", "uri", value="urn:other:policy"), "its policy"),
        (changed(OTHER, "predicate", "verificationResult", value="PASSED"), "its result"),
        (changed(OTHER, "predicate", "verifiedLevels", value=["CPUWHEELS_REPRODUCED"]), "its result"),
        (changed(OTHER, "predicate", "cpuwheels_rebuild", "result", value="reproduced"), "its result"),
        (changed(SHA256, "predicate", "cpuwheels_rebuild", "result", value="differs"), "its result"),
        (changed(SHA256, "predicate", "verificationResult", value="FAILED"), "its result"),
        (changed(SHA256, "predicate", "timeVerified", value="soon"), "timeVerified"),
        (changed(SHA256, "predicate", "verifier", "id", value="me"), "verifier.id"),
    ],
)
def test_what_says_two_things_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(ProvenanceError, match="the statement of a rebuild is refused") as caught:
        check_rebuild(content, NAME, SHA256, "here")
    assert why in caught.value.what
