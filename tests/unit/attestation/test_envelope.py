"""Envelopes: what somebody changed, or somebody else signed, is refused with one message."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from securesystemslib.dsse import Envelope

from cpuwheels.attestation.envelope import sign_envelope, verify_envelope
from cpuwheels.attestation.keys import make_key, open_signer, public_key
from cpuwheels.core.errors import ProvenanceError

STATEMENT = b'{"_type": "a statement"}'


@pytest.fixture
def envelope(key: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(sign_envelope(STATEMENT, open_signer(str(key), None)))
    return found


def verify(data: Any, *keys: Path) -> bytes:
    content = data if isinstance(data, bytes) else json.dumps(data).encode()
    return verify_envelope(content, [public_key(path) for path in keys], "a.intoto.jsonl")[0]


def test_it_is_what_others_read(envelope: dict[str, Any], key: Path) -> None:
    assert envelope.keys() == {"payload", "payloadType", "signatures"}
    assert envelope["payloadType"] == "application/vnd.in-toto+json"
    assert base64.b64decode(envelope["payload"]) == STATEMENT
    copy = json.loads(json.dumps(envelope))
    assert list(Envelope.from_dict(copy).verify([public_key(Path(f"{key}.pub"))], 1)) == [
        envelope["signatures"][0]["keyid"]
    ]


def test_any_of_the_trusted_keys_may_have_signed(envelope: dict[str, Any], key: Path, tmp_path: Path) -> None:
    other = make_key(tmp_path / "other")
    assert verify(envelope, other, Path(f"{key}.pub")) == STATEMENT


def test_what_was_changed_does_not_verify(envelope: dict[str, Any], key: Path, tmp_path: Path) -> None:
    public, other = Path(f"{key}.pub"), make_key(tmp_path / "other")
    signature = envelope["signatures"][0]
    changes: list[tuple[dict[str, Any], Path]] = [
        (envelope, other),
        (envelope | {"payload": base64.b64encode(b"{}").decode()}, public),
        (envelope | {"signatures": []}, public),
        (envelope | {"signatures": [signature | {"sig": base64.b64encode(b"0" * 64).decode()}]}, public),
        (envelope | {"signatures": [signature | {"keyid": public_key(other).keyid}]}, public),
    ]
    for data, trusted in changes:
        with pytest.raises(ProvenanceError, match=r"the signature does not verify: no key that is trusted") as raised:
            verify(data, trusted)
        assert raised.value.where == "a.intoto.jsonl"
        assert raised.value.next_step


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"payload": 1}', b'{"a": 1, "a": 2}', b"\xff"])
def test_what_is_no_envelope_is_refused(content: bytes, key: Path) -> None:
    with pytest.raises(ProvenanceError, match=r"the envelope is refused"):
        verify(content, Path(f"{key}.pub"))


def test_an_envelope_of_something_else_is_refused(key: Path) -> None:
    signed = Envelope(b"{}", "text/plain", {})
    signed.sign(open_signer(str(key), None))
    with pytest.raises(ProvenanceError, match=r"its payload is 'text/plain'"):
        verify(signed.to_dict(), Path(f"{key}.pub"))
