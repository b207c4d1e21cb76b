"""A rebuilder's statement signed afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.attestation.envelope import verify_envelope
from cpuwheels.attestation.keys import make_key, public_key
from cpuwheels.attestation.sign import Signing
from cpuwheels.core.errors import ProvenanceError
from cpuwheels.rebuild.signing import sign_rebuild
from cpuwheels.rebuild.statement import SIGNED_SUFFIX, SUFFIX
from rebuild_statements import NAME, OTHER, SHA256, details, statement


@pytest.mark.parametrize("sha256", [SHA256, OTHER])
def test_it_is_signed_as_it_is(sha256: str, tmp_path: Path) -> None:
    own = make_key(tmp_path / "key")
    content = statement(details(sha256)).render()
    (tmp_path / f"{NAME}{SUFFIX}").write_bytes(content)
    signed = sign_rebuild(tmp_path / f"{NAME}{SUFFIX}", Signing(key=str(tmp_path / "key")))
    assert signed.name == f"{NAME}{SIGNED_SUFFIX}"
    assert verify_envelope(signed.read_bytes(), [public_key(own)], signed)[0] == content


def test_what_is_no_statement_is_not_signed(tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    signing, path = Signing(key=str(tmp_path / "key")), tmp_path / f"{NAME}{SUFFIX}"
    with pytest.raises(ProvenanceError, match="cannot be read"):
        sign_rebuild(path, signing)
    lie = statement(details(OTHER)).render().replace(b'"FAILED"', b'"PASSED"', 1)
    for content in (b"{", b"{}", lie):
        path.write_bytes(content)
        with pytest.raises(ProvenanceError, match="the statement of a rebuild is refused"):
            sign_rebuild(path, signing)
    other = tmp_path / f"vllm-1-py3-none-any.whl{SUFFIX}"
    other.write_bytes(statement(details()).render())
    with pytest.raises(ProvenanceError, match="it is about"):
        sign_rebuild(other, signing)
    with pytest.raises(ProvenanceError, match="signed with a key"):
        sign_rebuild(other, Signing())
    assert not list(tmp_path.glob(f"*{SIGNED_SUFFIX}"))
