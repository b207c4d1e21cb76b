"""Statements in envelopes (DSSE), signed with keys: one JSON object on one line."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from cpuwheels.attestation.keys import unusable_key
from cpuwheels.core.errors import MalformedDataError, ProvenanceError
from cpuwheels.core.parse import parse_json
from cpuwheels.pipeline.in_toto import PAYLOAD

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import Key, Signer


def sign_envelope(statement: bytes, signer: Signer) -> bytes:
    """Return a statement in an envelope.

    Args:
        statement: Its bytes.
        signer: Signs it.

    Raises:
        ProvenanceError: The key does not sign.
    """
    from securesystemslib.dsse import Envelope  # noqa: PLC0415  (the extra)

    envelope = Envelope(statement, PAYLOAD, {})
    try:
        envelope.sign(signer)
    except Exception as error:  # services and devices have errors of their own, as securesystemslib says
        raise unusable_key(error) from error
    return (json.dumps(envelope.to_dict(), separators=(",", ":")) + "\n").encode()


def verify_envelope(content: bytes, keys: Sequence[Key], where: str | Path) -> tuple[bytes, str]:
    """Return the statement in an envelope, and the id of the key that signed it.

    Args:
        content: The envelope.
        keys: Any of them may have signed it.
        where: What has the envelope, for the message.

    Raises:
        ProvenanceError: It is no envelope of a statement, or none of the keys signed it.
    """
    from securesystemslib.exceptions import VerificationError  # noqa: PLC0415

    envelope = _parsed(content, where)
    try:
        accepted = envelope.verify(list(keys), 1)
    except (VerificationError, ValueError) as error:
        signers = ", ".join(envelope.signatures) or "nobody"
        raise ProvenanceError(
            "the signature does not verify: no key that is trusted signed this",
            where=where,
            output=f"trusted: {', '.join(key.keyid for key in keys)}\nsigned, it says, by: {signers}",
            next_step="get the envelope again, and the public key from somebody you trust; else do not use the wheel",
        ) from error
    return envelope.payload, next(iter(accepted))


def statement_in(content: bytes, where: str | Path) -> bytes:
    """Return the statement in an envelope, whoever signed it; no library that verifies is needed.

    Raises:
        ProvenanceError: It is no envelope.
    """
    try:
        return base64.b64decode(parse_json(content, where)["payload"], validate=True)
    except MalformedDataError as error:
        raise _refused(f"it is {error.what}", where) from error
    except (KeyError, TypeError, ValueError) as error:
        raise _refused(f"it does not have the form of one: {error!r:.200}", where) from error


def _parsed(content: bytes, where: str | Path) -> Envelope:
    from securesystemslib.dsse import Envelope  # noqa: PLC0415

    try:
        data = parse_json(content, where)
        envelope = Envelope.from_dict(data)
    except MalformedDataError as error:
        raise _refused(f"it is {error.what}", where) from error
    except Exception as error:
        raise _refused(f"it does not have the form of one: {error!r:.200}", where) from error
    if envelope.payload_type != PAYLOAD:
        raise _refused(f"its payload is {envelope.payload_type!r:.80}, not {PAYLOAD}", where)
    return envelope


def _refused(why: str, where: str | Path) -> ProvenanceError:
    return ProvenanceError(
        f"the envelope is refused: {why}", where=where, next_step="get it again from where the wheel was published"
    )
