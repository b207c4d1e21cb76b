"""Signing: what is signed is what the record says of the wheel, and nothing else."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from cpuwheels.attestation.sign import Signing, platform_of, sign_wheel
from cpuwheels.attestation.verify import Trust, verify_provenance
from cpuwheels.core.errors import ProvenanceError
from cpuwheels.pipeline.slsa import LOCAL_BUILDER, SUFFIX, Platform
from local_sigstore import IDENTITY, LocalSigstore


def test_the_envelope_has_the_statement_next_to_the_wheel(wheel: Path, key: Path) -> None:
    statement = wheel.with_name(f"{wheel.name}{SUFFIX}")
    before = statement.read_bytes()
    paths = sign_wheel(wheel, Signing(key=str(key)), {})
    assert [path.name.removeprefix(wheel.name) for path in paths] == [SUFFIX, ".intoto.jsonl"]
    assert statement.read_bytes() == before
    assert base64.b64decode(json.loads(paths[1].read_text())["payload"]) == before


def test_a_statement_that_is_lost_is_made_again(wheel: Path, key: Path) -> None:
    statement = wheel.with_name(f"{wheel.name}{SUFFIX}")
    before = statement.read_bytes()
    statement.unlink()
    sign_wheel(wheel, Signing(key=str(key)), {})
    assert statement.read_bytes() == before


def test_a_job_of_github_is_named_as_the_builder_by_its_identity_alone(
    wheel: Path, key: Path, sigstore: LocalSigstore, config: Path
) -> None:
    sign_wheel(wheel, Signing(key=str(key)), sigstore.environment())
    with_key = verify_provenance(wheel, Trust(keys=(Path(f"{key}.pub"),)))
    assert with_key.statement.predicate.run_details.builder.id == LOCAL_BUILDER
    sign_wheel(wheel, Signing(keyless=True, trust_config=config), sigstore.environment())
    run = verify_provenance(wheel, Trust(anybody=True, trust_config=config)).statement.predicate.run_details
    assert run.builder.id == IDENTITY
    assert run.metadata
    assert run.metadata.invocation_id == "https://github.com/wheels/cpu/actions/runs/7/attempts/1"


def test_what_is_not_the_records_is_not_signed(wheel: Path, key: Path) -> None:
    statement, record = wheel.with_name(f"{wheel.name}{SUFFIX}"), wheel.with_name("record.json")
    before = {path: path.read_bytes() for path in (wheel, statement, record)}
    changed = json.loads(before[record])
    cases = [
        (
            statement,
            before[statement].replace(b'"locked": false', b'"locked": true'),
            "does not say what record.json says",
        ),
        (wheel, b"other bytes", "it is about .*, not about"),
        (record, json.dumps(changed | {"parameters": None}).encode(), "does not say what the wheel was made from"),
        (record, b"{", "is not a build record"),
        (record, None, "cannot be read"),
    ]
    for path, content, words in cases:
        path.unlink() if content is None else path.write_bytes(content)
        with pytest.raises(ProvenanceError, match=words) as raised:
            sign_wheel(wheel, Signing(key=str(key)), {})
        assert raised.value.next_step
        assert not wheel.with_name(f"{wheel.name}.intoto.jsonl").exists()
        path.write_bytes(before[path])
    assert sign_wheel(wheel, Signing(key=str(key)), {})


def test_without_an_identity_nothing_is_signed(
    wheel: Path, sigstore: LocalSigstore, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in sigstore.environment():
        monkeypatch.delenv(name)
    before = sorted(wheel.parent.iterdir())
    with pytest.raises(ProvenanceError, match=r"this process has no identity to sign for"):
        sign_wheel(wheel, Signing(keyless=True, trust_config=config), {})
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    with pytest.raises(ProvenanceError, match=r"no identity to sign for: .*permissions"):
        sign_wheel(wheel, Signing(keyless=True, trust_config=config), {})
    assert sorted(wheel.parent.iterdir()) == before


def test_services_that_do_not_answer_are_one_message(wheel: Path, config: Path, sigstore: LocalSigstore) -> None:
    data = json.loads(config.read_text())
    data["signingConfig"]["caUrls"][0]["url"] = "http://127.0.0.1:9"
    config.write_text(json.dumps(data))
    with pytest.raises(ProvenanceError, match=r"Sigstore did not sign: ") as raised:
        sign_wheel(wheel, Signing(keyless=True, trust_config=config), sigstore.environment())
    assert "\n" not in raised.value.what


def test_the_platform_is_githubs_only_in_its_jobs(sigstore: LocalSigstore) -> None:
    assert platform_of({}) == Platform()
    assert platform_of({"GITHUB_ACTIONS": "false", "GITHUB_REPOSITORY": "a/b"}) == Platform()
    assert platform_of(sigstore.environment()).builder == IDENTITY
