"""Verifying a wheel: with a key, with an identity, and everything that somebody may have changed on the way."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pypi_attestations import Attestation, Distribution
from sigstore.models import ClientTrustConfig
from sigstore.verify.policy import Identity as SigstoresIdentity

import local_sigstore
from cpuwheels.attestation.facts import lines_of
from cpuwheels.attestation.files import PUBLISH_ATTESTATION, SLSA_ATTESTATION, companion_file
from cpuwheels.attestation.keyless import Identity, attest, keyless_signer, verify_attestation
from cpuwheels.attestation.keys import make_key
from cpuwheels.attestation.pep740 import attestations_of, provenance_object
from cpuwheels.attestation.sign import Signing, sign_wheel
from cpuwheels.attestation.statement import PUBLISH
from cpuwheels.attestation.verify import Trust, verify_provenance
from cpuwheels.core.errors import ProvenanceError
from cpuwheels.pipeline.slsa import LOCAL_BUILDER, SUFFIX, write_statement
from local_sigstore import IDENTITY, ISSUER, LocalSigstore
from recorded_wheel import DEPENDENCIES, write_build
from sample_source import sha256

WHO = Identity(IDENTITY, ISSUER)
PUBLISHER = {"kind": "GitHub", "repository": "wheels/cpu", "workflow": "nightly.yml"}


@pytest.fixture
def signed(wheel: Path, key: Path, sigstore: LocalSigstore, config: Path) -> Path:
    sign_wheel(wheel, Signing(key=str(key), keyless=True, trust_config=config), sigstore.environment())
    return wheel


@pytest.fixture
def trust(key: Path, config: Path) -> Trust:
    return Trust(keys=(Path(f"{key}.pub"),), identity=WHO, trust_config=config)


def test_both_signatures_are_right(signed: Path, trust: Trust) -> None:
    found = verify_provenance(signed, trust)
    assert [who.partition(" ")[0] for who in found.by] == ["key", IDENTITY]
    text = "\n".join(lines_of(found))
    assert f"{signed.name}: sha256 {sha256(signed)}" in text
    assert f"signed by {IDENTITY}" in text
    assert f"source: vllm 0.32.0 sha256 {'d' * 64}" in text
    assert "sysroot: 1 file, with its digest" in text
    assert "without the digest of what was fetched: oneDNN, GNU" in text
    assert "asked for: locked no, source 0.32.0, target x86, toolchain auto" in text


def test_the_own_verifier_of_pypi_attestations_agrees(
    signed: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows the public instance alone, so the local one takes its place: nothing else of it is changed."""
    local = ClientTrustConfig.from_json(config.read_text())
    monkeypatch.setattr(ClientTrustConfig, "production", lambda **_: local)
    policy = SigstoresIdentity(identity=IDENTITY, issuer=ISSUER)
    kinds = []
    for suffix in (SLSA_ATTESTATION, PUBLISH_ATTESTATION):
        attestation = Attestation.model_validate_json(companion_file(signed, suffix).read_text())
        kind, predicate = attestation.verify(policy, Distribution.from_file(signed))
        kinds.append(kind)
        assert (predicate is None) is (suffix == PUBLISH_ATTESTATION)
    assert kinds == ["https://slsa.dev/provenance/v1", "https://docs.pypi.org/attestations/publish/v1"]
    found = verify_provenance(signed, Trust(identity=WHO))
    assert found.by == (IDENTITY,)


def test_each_way_alone_is_enough(signed: Path, key: Path, config: Path) -> None:
    companion_file(signed, ".intoto.jsonl").rename(signed.with_name("kept"))
    assert verify_provenance(signed, Trust(identity=WHO, trust_config=config)).by == (IDENTITY,)
    signed.with_name("kept").rename(companion_file(signed, ".intoto.jsonl"))
    for suffix in (SLSA_ATTESTATION, PUBLISH_ATTESTATION, SUFFIX):
        companion_file(signed, suffix).unlink()
    assert len(verify_provenance(signed, Trust(keys=(Path(f"{key}.pub"),))).by) == 1


def test_the_object_of_an_index_will_do(signed: Path, config: Path) -> None:
    found: list[Attestation] = []
    for suffix in (SLSA_ATTESTATION, PUBLISH_ATTESTATION):
        found += attestations_of(companion_file(signed, suffix).read_bytes(), "here")
        companion_file(signed, suffix).unlink()
    content = provenance_object(found, "here")
    companion_file(signed, ".provenance").write_bytes(content)
    (bundle,) = json.loads(content)["attestation_bundles"]
    assert bundle["publisher"] == {
        "kind": "GitHub",
        "repository": "wheels/cpu",
        "workflow": "nightly.yml",
        "environment": None,
    }
    assert verify_provenance(signed, Trust(identity=WHO, trust_config=config)).by == (IDENTITY,)


def changed(path: Path, change: Callable[[Any], None]) -> None:
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def forge_payload(data: dict[str, Any]) -> None:
    text = base64.b64decode(data["payload"]).replace(b'"locked": false', b'"locked": true')
    data["payload"] = base64.b64encode(text).decode()


def forge_statement(data: dict[str, Any]) -> None:
    text = base64.b64decode(data["envelope"]["statement"]).replace(b'"locked": false', b'"locked": true')
    data["envelope"]["statement"] = base64.b64encode(text).decode()


def other_signature(data: dict[str, Any]) -> None:
    signature = bytearray(base64.b64decode(data["envelope"]["signature"]))
    signature[-1] ^= 1
    data["envelope"]["signature"] = base64.b64encode(bytes(signature)).decode()


def other_time(data: dict[str, Any]) -> None:
    entry = data["verification_material"]["transparency_entries"][0]
    entry["integratedTime"] = str(int(entry["integratedTime"]) + 1)


def other_root(data: dict[str, Any]) -> None:
    proof = data["verification_material"]["transparency_entries"][0]["inclusionProof"]
    proof["rootHash"] = base64.b64encode(b"0" * 32).decode()


def other_source(data: dict[str, Any]) -> None:
    data["predicate"]["buildDefinition"]["resolvedDependencies"][0]["digest"]["sha256"] = "0" * 64


def other_builder(data: dict[str, Any]) -> None:
    data["predicate"]["runDetails"]["builder"]["id"] = "https://example.org/somebody"


@pytest.mark.parametrize(
    ("suffix", "change", "words"),
    [
        (".intoto.jsonl", forge_payload, "the signature does not verify"),
        (SLSA_ATTESTATION, forge_statement, "the attestation does not verify"),
        (SLSA_ATTESTATION, other_signature, "the attestation does not verify"),
        (PUBLISH_ATTESTATION, other_signature, "the attestation does not verify"),
        (SLSA_ATTESTATION, other_time, "the attestation does not verify: invalid log entry"),
        (SLSA_ATTESTATION, other_root, "the attestation does not verify: invalid log entry"),
        (SLSA_ATTESTATION, lambda data: data.pop("envelope"), "the attestation is refused"),
        (SUFFIX, lambda data: data["subject"][0]["digest"].update(sha256="0" * 64), "the statement is refused"),
        (SUFFIX, other_source, "the statement is refused: it does not say what was signed"),
        (SUFFIX, other_builder, "the statement is refused: it does not say what was signed"),
        (SUFFIX, lambda data: data.update(predicateType=PUBLISH, predicate=None), "does not say how the wheel was"),
    ],
)
def test_what_was_changed_is_refused(
    signed: Path, trust: Trust, suffix: str, change: Callable[[Any], None], words: str
) -> None:
    assert verify_provenance(signed, trust)
    path = companion_file(signed, suffix)
    changed(path, change)
    with pytest.raises(ProvenanceError, match=words) as raised:
        verify_provenance(signed, trust)
    assert path.name in str(raised.value.where)
    assert raised.value.next_step
    assert "\n" not in raised.value.what


def test_a_statement_as_the_build_wrote_it_says_what_a_platform_signed(signed: Path, trust: Trust) -> None:
    write_statement(signed.parent)
    assert LOCAL_BUILDER in companion_file(signed, SUFFIX).read_text()
    assert verify_provenance(signed, trust).by[1:] == (IDENTITY,)


@pytest.mark.parametrize("bundles", [[], [{"publisher": PUBLISHER, "attestations": []}]])
def test_nobody_has_signed_an_object_without_attestations(
    signed: Path, trust: Trust, bundles: list[dict[str, Any]]
) -> None:
    for suffix in (SLSA_ATTESTATION, PUBLISH_ATTESTATION):
        companion_file(signed, suffix).unlink()
    companion_file(signed, ".provenance").write_text(json.dumps({"version": 1, "attestation_bundles": bundles}))
    with pytest.raises(ProvenanceError, match=r"the attestation is refused: it has no attestation"):
        verify_provenance(signed, trust)


def test_who_only_published_a_wheel_is_not_named_as_who_signed_how_it_was_built(signed: Path, trust: Trust) -> None:
    companion_file(signed, SLSA_ATTESTATION).unlink()
    (by,) = verify_provenance(signed, trust).by
    assert by.startswith("key ")


def test_a_terminal_obeys_nothing_of_what_was_signed(tmp_path: Path, key: Path) -> None:
    evil = DEPENDENCIES[0].model_copy(update={"version": "1\x1b[2J\nsigned by somebody else"})
    wheel = write_build(tmp_path / "evil", dependencies=[evil, *DEPENDENCIES[1:]])
    sign_wheel(wheel, Signing(key=str(key)), {})
    lines = list(lines_of(verify_provenance(wheel, Trust(keys=(Path(f"{key}.pub"),)))))
    assert all(line.isprintable() for line in lines)
    assert sum(line.startswith("signed by") for line in lines) == 1
    assert any(r"1\x1b[2J\nsigned by somebody else" in line for line in lines)


def test_a_changed_wheel_is_refused(signed: Path, trust: Trust) -> None:
    signed.write_bytes(signed.read_bytes() + b"\0")
    with pytest.raises(ProvenanceError, match=r"it is about .*, not about .* with sha256"):
        verify_provenance(signed, trust)


def test_files_of_another_wheel_are_refused(signed: Path, trust: Trust, tmp_path: Path, key: Path) -> None:
    other = write_build(tmp_path / "other", version="0.33.0+cpu")
    sign_wheel(other, Signing(key=str(key)), {})
    companion_file(signed, ".intoto.jsonl").write_bytes(companion_file(other, ".intoto.jsonl").read_bytes())
    with pytest.raises(ProvenanceError, match=r"it is about vllm-0.33.0"):
        verify_provenance(signed, trust)


def test_somebody_elses_signature_does_not_count(signed: Path, tmp_path: Path, config: Path) -> None:
    other = make_key(tmp_path / "other")
    with pytest.raises(ProvenanceError, match=r"no key that is trusted signed this"):
        verify_provenance(signed, Trust(keys=(other,)))
    fork = Identity(IDENTITY.replace("wheels/", "fork/"), ISSUER)
    with pytest.raises(ProvenanceError, match=r"does not verify: Certificate's SANs do not match"):
        verify_provenance(signed, Trust(identity=fork, trust_config=config))
    with pytest.raises(ProvenanceError, match=r"does not verify: .*OIDCIssuer"):
        verify_provenance(signed, Trust(identity=Identity(IDENTITY, "https://gitlab.com"), trust_config=config))
    with LocalSigstore() as another, pytest.raises(ProvenanceError, match=r"does not verify: failed to build"):
        verify_provenance(signed, Trust(identity=WHO, trust_config=another.trust_config(tmp_path / "another.json")))


def test_without_a_signature_that_counts_nothing_is_verified(signed: Path, trust: Trust) -> None:
    with pytest.raises(ProvenanceError, match=r"and nobody is trusted"):
        verify_provenance(signed, Trust())
    for suffix in (".intoto.jsonl", SLSA_ATTESTATION):
        companion_file(signed, suffix).unlink()
    # That somebody published it does not say how it was built.
    with pytest.raises(ProvenanceError, match=r"no signed provenance of .* counts: there is .*publish.attestation"):
        verify_provenance(signed, trust)


def test_a_statement_that_names_another_builder_than_its_signer_is_refused(
    wheel: Path, sigstore: LocalSigstore, config: Path
) -> None:
    claimed = sigstore.environment() | {
        "GITHUB_WORKFLOW_REF": "vllm-project/vllm/.github/workflows/a.yml@refs/heads/main"
    }
    sign_wheel(wheel, Signing(keyless=True, trust_config=config), claimed)
    with pytest.raises(
        ProvenanceError, match=r"names the builder https://github.com/vllm-project/.*; it was signed by"
    ):
        verify_provenance(wheel, Trust(identity=WHO, trust_config=config))


def test_statements_that_differ_are_refused(
    wheel: Path, key: Path, sigstore: LocalSigstore, config: Path, trust: Trust
) -> None:
    sign_wheel(wheel, Signing(keyless=True, trust_config=config), sigstore.environment())
    companion_file(wheel, SUFFIX).unlink()
    sign_wheel(wheel, Signing(key=str(key)), {})
    with pytest.raises(ProvenanceError, match=r"say different things about the wheel"):
        verify_provenance(wheel, trust)


def test_an_attestation_of_another_publisher_has_no_object(wheel: Path, sigstore: LocalSigstore, config: Path) -> None:
    sigstore.claims |= {8: "https://accounts.google.com"}
    sign_wheel(wheel, Signing(keyless=True, trust_config=config), sigstore.environment())
    (attestation,) = attestations_of(companion_file(wheel, SLSA_ATTESTATION).read_bytes(), "here")
    with pytest.raises(ProvenanceError, match=r"no index can name its publisher: https://accounts.google.com"):
        provenance_object([attestation], "here")


def test_a_certificate_of_before_does_not_sign_now(wheel: Path, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log's time decides: a signature after the certificate's few minutes is refused."""
    now = local_sigstore.time.time
    with keyless_signer(config) as signer:
        monkeypatch.setattr(local_sigstore.time, "time", lambda: now() + 3600)
        late = attest(signer, companion_file(wheel, SUFFIX).read_bytes())
    with pytest.raises(ProvenanceError, match=r"the attestation does not verify: "):
        verify_attestation(late, wheel.name, sha256(wheel), identity=WHO, config=config, where="here")
