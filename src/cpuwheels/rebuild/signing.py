"""Signing a rebuilder's statement apart from the rebuild: where nothing is built, or with the key of a service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.attestation.envelope import sign_envelope
from cpuwheels.attestation.keys import open_signer
from cpuwheels.core.errors import ProvenanceError
from cpuwheels.core.filesystem import storage_errors, write_atomic
from cpuwheels.core.plain_file import read_plain
from cpuwheels.pipeline.in_toto import Statement
from cpuwheels.rebuild.statement import LARGEST, SIGNED_SUFFIX, SUFFIX, check_rebuild

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.attestation.sign import Signing


def sign_rebuild(path: Path, signing: Signing) -> Path:
    """Sign the statement of a rebuild and return the envelope's file, next to it.

    Args:
        path: The statement.
        signing: With a key.

    Raises:
        ProvenanceError: It is no such statement, or the key does not sign.
        StoreError: The file cannot be written.
    """
    try:
        content = read_plain(path, LARGEST)
    except OSError as error:
        raise ProvenanceError(
            f"the statement cannot be read: {error.strerror}", where=path, next_step=f"name a file *{SUFFIX}"
        ) from error
    if signing.key is None:
        raise ProvenanceError(
            "the statement of a rebuild is signed with a key", where=path, next_step="give one with --key"
        )
    name = path.name.removesuffix(SUFFIX)
    check_rebuild(content, name, _subject(content), path)
    target = path.with_name(f"{name}{SIGNED_SUFFIX}")
    envelope = sign_envelope(content, open_signer(signing.key, signing.public_key))
    with storage_errors(path.parent):
        write_atomic(target, envelope)
    return target


def _subject(content: bytes) -> str:
    """Return the digest that a statement is about; nothing if it is none, which is told when it is checked."""
    try:
        return Statement.model_validate_json(content).subject[0].digest.get("sha256", "")
    except ValueError:
        return ""
