"""What a wheel and its statements say: believed only as far as they fit together."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cpuwheels.attestation.files import ENVELOPE, about
from cpuwheels.attestation.keys import make_key, public_key
from cpuwheels.attestation.sign import Signing, sign_wheel
from cpuwheels.attestation.verify import Trust
from cpuwheels.core.errors import ProvenanceError, RebuildError
from cpuwheels.pipeline.slsa import SUFFIX
from cpuwheels.rebuild.published import Published
from cpuwheels.rebuild.reading import read_published
from published_wheels import COMMIT, changed_statement, digest_of, published_wheel
from small_wheels import write_wheel


def published(wheel: Path) -> Published:
    return Published(wheel, digest_of(wheel), str(wheel), about(wheel))


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return published_wheel(tmp_path / "built")


def test_the_statement_next_to_a_wheel_says_how(wheel: Path) -> None:
    found = read_published(published(wheel), None, None)
    assert found.plan.program.commit == COMMIT
    assert found.plan.locked
    assert (found.content, found.by) == (wheel.with_name(f"{wheel.name}{SUFFIX}").read_bytes(), ())


def test_a_signature_counts_if_somebody_is_trusted(wheel: Path, tmp_path: Path) -> None:
    own = make_key(tmp_path / "key")
    sign_wheel(wheel, Signing(key=str(tmp_path / "key")))
    found = read_published(published(wheel), None, Trust(keys=(own,)))
    assert found.by == (f"key {public_key(own).keyid}",)
    other = make_key(tmp_path / "other")
    with pytest.raises(ProvenanceError, match="does not verify"):
        read_published(published(wheel), None, Trust(keys=(other,)))
    # An envelope alone says it, too, though nobody is trusted.
    wheel.with_name(f"{wheel.name}{SUFFIX}").unlink()
    assert read_published(published(wheel), None, None).plan.program.commit == COMMIT


def test_a_tampered_wheel_is_not_what_its_statement_is_about(wheel: Path) -> None:
    wheel.write_bytes(wheel.read_bytes() + b"\0")
    with pytest.raises(ProvenanceError, match="not about"):
        read_published(published(wheel), None, None)


def test_a_changed_statement_is_refused(wheel: Path) -> None:
    changed_statement(wheel, repo="https://evil.example/cpuwheels")
    with pytest.raises(ProvenanceError, match="external parameters that this version does not know: repo"):
        read_published(published(wheel), None, None)
    changed_statement(wheel, repo=None, target="arm")
    with pytest.raises(RebuildError, match="the target 'arm'"):
        read_published(published(wheel), None, None)


def test_statements_that_say_different_things_are_refused(wheel: Path, tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    sign_wheel(wheel, Signing(key=str(tmp_path / "key")))
    changed_statement(wheel, toolchain="host")
    with pytest.raises(ProvenanceError, match="different things"):
        read_published(published(wheel), None, None)


@pytest.mark.parametrize("content", [b"{}", b"[]", b'{"payload": "?"}', b"\xff"])
def test_an_envelope_that_is_none_is_refused(content: bytes, wheel: Path) -> None:
    wheel.with_name(f"{wheel.name}{ENVELOPE}").write_bytes(content + b"\n")
    with pytest.raises(ProvenanceError, match="envelope"):
        read_published(published(wheel), None, None)


def test_a_wheel_of_somebody_else_has_no_note(tmp_path: Path) -> None:
    other = write_wheel(tmp_path, "vllm", "1.0")
    with pytest.raises(RebuildError, match="cpuwheels did not build it"):
        read_published(published(other), COMMIT, None)


def test_a_note_that_was_changed_is_refused(tmp_path: Path) -> None:
    name = "vllm-1.0.dist-info/cpuwheels.json"
    unread = "not a wheel that can be read"
    for text, why in (("{", unread), (json.dumps({"format": 1}), "another version"), ("[" * 1000, unread)):
        other = write_wheel(tmp_path / str(len(text)), "vllm", "1.0", {name: text})
        with pytest.raises(RebuildError, match=why):
            read_published(published(other), COMMIT, None)


def test_what_is_no_archive_is_refused(wheel: Path) -> None:
    given = published(wheel)
    wheel.write_bytes(b"no archive")
    with pytest.raises(RebuildError, match="not a wheel that can be read"):
        read_published(replace(given, wheel=wheel), None, None)
