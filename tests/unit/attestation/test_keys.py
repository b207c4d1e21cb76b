"""Keys: made once, read by their owner alone, and one message for each that cannot be used."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
from pathlib import Path

import boto3
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key
from moto import mock_aws

from cpuwheels.attestation.envelope import sign_envelope, verify_envelope
from cpuwheels.attestation.keys import make_key, open_signer, public_key
from cpuwheels.core.errors import ProvenanceError


def test_a_key_signs_and_its_public_half_verifies(tmp_path: Path) -> None:
    public = make_key(tmp_path / "key")
    assert public == tmp_path / "key.pub"
    envelope = sign_envelope(b"{}", open_signer(str(tmp_path / "key"), None))
    assert verify_envelope(envelope, [public_key(public)], "here") == (b"{}", public_key(public).keyid)


def test_nobody_else_can_read_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_key(tmp_path / "key")
    finally:
        os.umask(before)
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("taken", ["key", "key.pub"])
def test_one_that_is_there_stays(tmp_path: Path, taken: str) -> None:
    (tmp_path / taken).write_text("mine")
    with pytest.raises(ProvenanceError, match=f"{taken} is there already"):
        make_key(tmp_path / "key")
    assert [path.name for path in tmp_path.iterdir()] == [taken]
    assert (tmp_path / taken).read_text() == "mine"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ProvenanceError, match=r"key is there already"):
        make_key(tmp_path / "key")
    assert not (tmp_path / "elsewhere").exists()


def test_what_cannot_sign_is_one_message(tmp_path: Path, key: Path) -> None:
    other = tmp_path / "other"
    make_key(other)
    shared = str(shutil.copy(key, tmp_path / "shared"))
    Path(shared).chmod(0o640)
    shutil.copy(f"{key}.pub", f"{shared}.pub")
    text = str(shutil.copy(key, tmp_path / "text"))
    Path(f"{text}.pub").write_text("no key")
    for name, public, words in (
        (str(key), Path(f"{other}.pub"), "does not match public key"),
        (shared, None, "can be read by other users"),
        (str(tmp_path / "none"), None, "the key is not there"),
        (str(tmp_path / "none"), Path(f"{key}.pub"), "the key is not there"),
        (text, None, "not a public key that can verify"),
        ("gcpkms:projects/a", None, "the public key of gcpkms: is not known"),
        ("azurekms:a", Path(f"{key}.pub"), "the key cannot sign: .* requires azure-identity"),
    ):
        with pytest.raises(ProvenanceError, match=words) as raised:
            open_signer(name, public)
        assert raised.value.next_step
        assert "\n" not in raised.value.what


def test_a_key_in_a_service_signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        service = boto3.client("kms")
        made = service.create_key(KeyUsage="SIGN_VERIFY", KeySpec="ECC_NIST_P256")["KeyMetadata"]["KeyId"]
        der = service.get_public_key(KeyId=made)["PublicKey"]
        public = tmp_path / "kms.pub"
        public.write_bytes(load_der_public_key(der).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        content = json.loads(sign_envelope(b"{}", open_signer(f"awskms:{made}", public)))
        (signature,) = content["signatures"]
        # The service's stand-in hashes the digest that it is given once more, so it is the one to ask.
        signed = hashlib.sha256(b"DSSEv1 28 application/vnd.in-toto+json 2 {}").digest()
        said = service.verify(
            KeyId=made,
            Message=signed,
            MessageType="DIGEST",
            Signature=base64.b64decode(signature["sig"]),
            SigningAlgorithm="ECDSA_SHA_256",
        )
    assert said["SignatureValid"]
    assert signature["keyid"] == public_key(public).keyid
