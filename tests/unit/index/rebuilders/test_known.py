"""Whose statements count is named by keys; who has two names is one."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from cpuwheels.core.errors import MatrixError
from cpuwheels.index.rebuilders.known import read_rebuilders
from rebuilder_sites import Rebuilder, rebuilders_file


def test_rebuilders_with_their_keys(tmp_path: Path) -> None:
    one, two = (Rebuilder(name, tmp_path / name, url="https://r.example.org/x/") for name in ("one", "two"))
    found = read_rebuilders(rebuilders_file(tmp_path / "r.yaml", one, two))
    assert [(each.name, each.url) for each in found] == [
        ("one", "https://r.example.org/x"),
        ("two", "https://r.example.org/x"),
    ]
    assert [key.keyid for each in found for key in each.keys] == [one.keyid, two.keyid]
    assert read_rebuilders(rebuilders_file(tmp_path / "r.yaml")) == ()


def test_one_key_is_one_rebuilder(tmp_path: Path) -> None:
    """Written in another way it is still the same key."""
    one = Rebuilder("one", tmp_path / "one")
    file = rebuilders_file(tmp_path / "r.yaml", one)
    key = load_pem_public_key((one.base / "key.pub").read_bytes())
    again = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode().replace("\n", "\\n\\n", 1)
    file.write_text(f'{file.read_text()}  - {{name: two, url: "https://two.example.org", keys: ["{again}"]}}\n')
    with pytest.raises(MatrixError, match=f"one and two have the same key {one.keyid}, so they are one rebuilder"):
        read_rebuilders(file)


@pytest.mark.parametrize("key", ["none", "-----BEGIN PUBLIC KEY-----\\nAAAA\\n-----END PUBLIC KEY-----\\n"])
def test_what_is_no_key(tmp_path: Path, key: str) -> None:
    file = tmp_path / "r.yaml"
    file.write_text(f'rebuilders:\n  - {{name: one, url: "https://one.example.org", keys: ["{key}"]}}\n')
    with pytest.raises(MatrixError, match="it is not a public key") as raised:
        read_rebuilders(file)
    assert str(file) in raised.value.where
    with pytest.raises(MatrixError, match=r"cannot read gone\.yaml"):
        read_rebuilders(tmp_path / "gone.yaml")
