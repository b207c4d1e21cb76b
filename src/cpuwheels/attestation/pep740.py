"""The provenance object of an index (PEP 740): the attestations of one wheel, by who published it."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from cpuwheels.core.errors import MalformedDataError, ProvenanceError
from cpuwheels.core.parse import parse_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pypi_attestations import Attestation, GitHubPublisher, GitLabPublisher

GITHUB, GITLAB = "https://token.actions.githubusercontent.com", "https://gitlab.com"
_ISSUER, _REPOSITORY, _CONFIG = (f"1.3.6.1.4.1.57264.1.{number}" for number in (8, 12, 18))
"""Claims in a certificate of Sigstore: who vouches, the source's repository, and the file that configures the job."""

BUILDER = _CONFIG
"""The claim that names the platform of a build."""


def provenance_object(attestations: Sequence[Attestation], where: str | Path) -> bytes:
    """Return the object of a wheel's attestations.

    Args:
        attestations: All of one publisher.
        where: What has them, for the message.

    Raises:
        ProvenanceError: The publisher is none that PEP 740 can name, or they are of several.
    """
    from pypi_attestations import AttestationBundle, Provenance  # noqa: PLC0415  (the extra)

    publishers = [_publisher(one, where) for one in attestations]
    if any(one != publishers[0] for one in publishers):
        raise _refused("the attestations are of different publishers", where)
    bundle = AttestationBundle(publisher=publishers[0], attestations=list(attestations))
    return (Provenance(attestation_bundles=[bundle]).model_dump_json(indent=1) + "\n").encode()


def attestations_of(content: bytes, where: str | Path) -> list[Attestation]:
    """Return the attestations in a file: of one, or of an index's object.

    Raises:
        ProvenanceError: It is neither.
    """
    from pydantic import ValidationError  # noqa: PLC0415
    from pypi_attestations import Attestation, Provenance  # noqa: PLC0415

    try:
        if "attestation_bundles" in (parse_json(content, where) or {}):
            found = Provenance.model_validate_json(content)
            attestations = [one for bundle in found.attestation_bundles for one in bundle.attestations]
            if not attestations:
                raise _refused("it has no attestation", where)
            return attestations
        return [Attestation.model_validate_json(content)]
    except MalformedDataError as error:
        raise _refused(f"it is {error.what}", where) from error
    except (ValidationError, TypeError) as error:
        raise _refused(f"it does not have the form of one: {str(error).splitlines()[0]}", where) from error


def statements_in(content: bytes, where: str | Path) -> list[bytes]:
    """Return the statements in an index's object, whoever signed them; no library that verifies is needed.

    Raises:
        ProvenanceError: It is no such object.
    """
    try:
        bundles = parse_json(content, where)["attestation_bundles"]
        texts = [one["envelope"]["statement"] for bundle in bundles for one in bundle["attestations"]]
        return [base64.b64decode(text, validate=True) for text in texts]
    except MalformedDataError as error:
        raise _refused(f"it is {error.what}", where) from error
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise _refused(f"it does not have the form of one: {error!r:.200}", where) from error


def builder_of(attestation: Attestation) -> str:
    """Return the build platform that the certificate of an attestation names; empty if it names none."""
    return attestation.certificate_claims.get(BUILDER, "")


def _publisher(attestation: Attestation, where: str | Path) -> GitHubPublisher | GitLabPublisher:
    """Return the publisher that the certificate names."""
    from pypi_attestations import GitHubPublisher, GitLabPublisher  # noqa: PLC0415

    claims = attestation.certificate_claims
    issuer, config = claims.get(_ISSUER, ""), claims.get(_CONFIG, "").partition("@")[0]
    repository = claims.get(_REPOSITORY, "").partition("://")[2].partition("/")[2]
    if issuer == GITHUB and repository and "/.github/workflows/" in config:
        return GitHubPublisher(repository=repository, workflow=config.rpartition("/")[2])
    if issuer == GITLAB and repository and f"{repository}//" in config:
        return GitLabPublisher(repository=repository, workflow_filepath=config.partition(f"{repository}//")[2])
    raise _refused(f"no index can name its publisher: {issuer or 'no workflow of GitHub or GitLab'}", where)


def _refused(why: str, where: str | Path) -> ProvenanceError:
    return ProvenanceError(
        f"the attestation is refused: {why}", where=where, next_step="get it again, or sign the wheel again"
    )
