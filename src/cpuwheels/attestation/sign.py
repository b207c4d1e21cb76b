"""Signing the provenance of a wheel, apart from its build: whoever gets a commit built never reaches the key."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.attestation.envelope import sign_envelope
from cpuwheels.attestation.files import ENVELOPE, PUBLISH_ATTESTATION, SLSA_ATTESTATION, companion_file, read_companion
from cpuwheels.attestation.keyless import attest, attest_publication, keyless_signer
from cpuwheels.attestation.keys import open_signer
from cpuwheels.attestation.statement import check_statement
from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import ProvenanceError, UnusableWheelError, WheelError
from cpuwheels.core.filesystem import storage_errors, write_atomic
from cpuwheels.core.plain_file import read_plain
from cpuwheels.pipeline.built_wheel import RECORD
from cpuwheels.pipeline.slsa import SUFFIX, Platform, statement_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_LARGEST = 64 << 20
"""Bytes of a record."""


@dataclass(frozen=True)
class Signing:
    """How wheels are signed.

    Attributes:
        key: File of a private key, or a URI of securesystemslib; none if not given.
        public_key: File of its public key; that next to the private one if not given.
        keyless: Whether Sigstore signs for the identity that this process has.
        trust_config: Client trust configuration of an instance of Sigstore; the public one if not given.
    """

    key: str | None = None
    public_key: Path | None = None
    keyless: bool = False
    trust_config: Path | None = None

    def __bool__(self) -> bool:
        """Whether anything is signed."""
        return self.key is not None or self.keyless


def sign_wheel(wheel: Path, signing: Signing, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Sign the provenance of a wheel and return the files that were written, next to it.

    What is signed is made from the build record anew; a statement that is there has to say the same.

    Args:
        wheel: The file, with its record next to it.
        signing: How.
        environ: Tells on which platform this runs.

    Raises:
        ProvenanceError: The record or the statement is not the wheel's, or the key or the identity does not sign.
        StoreError: A file cannot be written.
    """
    platform = platform_of(environ) if signing.keyless else Platform()
    return sign_statement(wheel, statement_to_sign(wheel, platform), signing)


def sign_statement(wheel: Path, statement: bytes, signing: Signing) -> list[Path]:
    """Write a statement about a file next to it, and signatures of it, and return what was written.

    Args:
        wheel: The file.
        statement: Of whose truth the caller is sure.
        signing: How.

    Raises:
        ProvenanceError: The key or the identity does not sign.
        StoreError: A file cannot be written.
    """
    written = {SUFFIX: statement}
    if signing.key is not None:
        written[ENVELOPE] = sign_envelope(statement, open_signer(signing.key, signing.public_key))
    if signing.keyless:
        with keyless_signer(signing.trust_config) as signer:
            written[SLSA_ATTESTATION] = attest(signer, statement).model_dump_json().encode()
            written[PUBLISH_ATTESTATION] = attest_publication(signer, wheel).model_dump_json().encode()
    paths = [companion_file(wheel, suffix) for suffix in written]
    with storage_errors(wheel.parent):
        for path, content in zip(paths, written.values(), strict=True):
            write_atomic(path, content)
    return paths


def statement_to_sign(wheel: Path, platform: Platform) -> bytes:
    """Return the statement of a wheel, made from the record next to it.

    Args:
        wheel: The file.
        platform: Who built.

    Raises:
        UnusableWheelError: There is no such file.
        ProvenanceError: There is no record of it, or the statement next to it says something else.
    """
    if not wheel.exists():
        raise UnusableWheelError(
            f"{wheel} is not there", where="WHEEL", next_step="give the path of a wheel where it was built"
        )
    try:
        record = read_plain(wheel.with_name(RECORD), _LARGEST)
        digest = file_digest(wheel)
        statement = statement_of(record, wheel.parent, platform)
    except OSError as error:
        raise ProvenanceError(
            f"the wheel or its {RECORD} cannot be read: {error.strerror}",
            where=wheel,
            next_step="sign a wheel where it was built, next to its record",
        ) from error
    except WheelError as error:
        raise ProvenanceError(error.what, where=wheel.parent, output=error.output, next_step=error.next_step) from error
    check_statement(statement.render(), wheel.name, digest, wheel.with_name(RECORD))
    there = read_companion(wheel, SUFFIX)
    same = {each.render() for each in (statement, statement_of(record, wheel.parent))}
    if there is not None and there not in same:
        raise ProvenanceError(
            f"{wheel.name}{SUFFIX} does not say what {RECORD} says",
            where=wheel.parent,
            next_step="do not sign it; find out what changed one of them since the build, or build the wheel again",
        )
    return statement.render()


def platform_of(environ: Mapping[str, str]) -> Platform:
    """Return the platform that a process runs on: a workflow of GitHub, or whatever this machine is.

    Args:
        environ: As GitHub sets it in its jobs.
    """
    if environ.get("GITHUB_ACTIONS") != "true":
        return Platform()
    server, repository = environ.get("GITHUB_SERVER_URL", "https://github.com"), environ.get("GITHUB_REPOSITORY", "")
    run, attempt = environ.get("GITHUB_RUN_ID", ""), environ.get("GITHUB_RUN_ATTEMPT", "1")
    return Platform(
        builder=f"{server}/{environ.get('GITHUB_WORKFLOW_REF', '')}",
        invocation=f"{server}/{repository}/actions/runs/{run}/attempts/{attempt}",
    )
