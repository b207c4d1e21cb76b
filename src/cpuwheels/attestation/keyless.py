"""Attestations of an identity (PEP 740): signed with Sigstore for whom a service says that one is, and verified."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.errors import ProvenanceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pypi_attestations import Attestation
    from sigstore.models import ClientTrustConfig
    from sigstore.sign import Signer
    from sigstore.verify.policy import VerificationPolicy


@dataclass(frozen=True)
class Identity:
    """Somebody who may have signed.

    Attributes:
        name: As a certificate has it: a workflow's URL with its branch, or an address of mail.
        issuer: The service that vouches for it, such as ``https://token.actions.githubusercontent.com``.
    """

    name: str
    issuer: str

    def policy(self) -> VerificationPolicy:
        """Return what a certificate has to satisfy."""
        from sigstore.verify.policy import Identity as Required  # noqa: PLC0415  (the extra)

        return Required(identity=self.name, issuer=self.issuer)


def trust_config(path: Path | None, *, offline: bool = False) -> ClientTrustConfig:
    """Return whom signatures are trusted of: the public instance of Sigstore, or that of a file.

    Args:
        path: A client trust configuration of Sigstore, for an instance of one's own.
        offline: Whether the public instance's keys are taken as they were fetched last, or as they are in the package.

    Raises:
        ProvenanceError: It cannot be read, or the public instance's keys cannot be fetched.
    """
    from sigstore.models import ClientTrustConfig  # noqa: PLC0415

    try:
        if path is not None:
            return ClientTrustConfig.from_json(path.read_text(encoding="utf-8"))
        return ClientTrustConfig.production(offline=offline)
    except Exception as error:  # of the network, of TUF, of JSON
        raise ProvenanceError(
            f"Sigstore's keys cannot be had: {_line(error)}",
            where=path or "the public instance of Sigstore",
            next_step="correct the file"
            if path
            else "make tuf-repo-cdn.sigstore.dev reachable, or verify with --offline",
        ) from error


@contextmanager
def keyless_signer(path: Path | None, token: str | None = None) -> Iterator[Signer]:
    """Yield what signs for the identity that this process has.

    Args:
        path: As for `trust_config`.
        token: Identity token (OIDC); that of the CI in which this runs if not given.

    Raises:
        ProvenanceError: There is no identity, or Sigstore does not accept it.
    """
    from sigstore.oidc import IdentityToken, detect_credential  # noqa: PLC0415
    from sigstore.sign import SigningContext  # noqa: PLC0415

    config = trust_config(path)
    try:
        found = token or detect_credential()
    except Exception as error:  # of the CI's service
        raise _no_identity(_line(error)) from error
    if found is None:
        raise _no_identity("this runs in no CI that has one")
    try:
        with SigningContext.from_trust_config(config).signer(IdentityToken(found)) as signer:
            yield signer
    except Exception as error:  # of the network, of the services
        raise ProvenanceError(
            f"Sigstore did not sign: {_line(error)}",
            where="--keyless",
            next_step="run it again; see https://status.sigstore.dev, or sign with --key",
        ) from error


def _no_identity(why: str) -> ProvenanceError:
    return ProvenanceError(
        f"this process has no identity to sign for: {why}",
        where="--keyless",
        next_step="run it in a job with the permission id-token: write, or sign with --key",
    )


def attest(signer: Signer, statement: bytes) -> Attestation:
    """Return the attestation of a statement."""
    from pypi_attestations import Attestation  # noqa: PLC0415
    from sigstore.dsse import Statement  # noqa: PLC0415

    return Attestation.from_bundle(signer.sign_dsse(Statement(statement)))


def attest_publication(signer: Signer, wheel: Path) -> Attestation:
    """Return the attestation that a wheel is published by the signer."""
    from pypi_attestations import Attestation, Distribution  # noqa: PLC0415

    return Attestation.sign(signer, Distribution.from_file(wheel))


def verify_attestation(
    attestation: Attestation,
    name: str,
    sha256: str,
    *,
    identity: Identity | None,
    config: Path | None,
    where: str | Path,
    offline: bool = False,
) -> None:
    """Verify who signed an attestation, that it was logged, and that it is about a wheel.

    Args:
        attestation: It.
        name: File name of the wheel.
        sha256: Its digest.
        identity: Who has to have signed; anybody that Sigstore knows if not given.
        config: As for `trust_config`.
        where: What has the attestation, for the message.
        offline: Likewise.

    Raises:
        ProvenanceError: Something of that is not so.
    """
    from pypi_attestations import AttestationError, Distribution  # noqa: PLC0415
    from sigstore.errors import Error  # noqa: PLC0415
    from sigstore.verify.policy import UnsafeNoOp  # noqa: PLC0415

    policy = identity.policy() if identity else UnsafeNoOp()
    try:
        if config is None:
            attestation.verify(policy, Distribution(name=name, digest=sha256), offline=offline)
        else:
            _verify_privately(attestation, policy, trust_config(config))
    except (AttestationError, Error, ValueError) as error:
        wanted = f" by {identity.name}, of {identity.issuer}," if identity else ""
        raise ProvenanceError(
            f"the attestation does not verify: {_line(error).removeprefix('Verification failed: ')}",
            where=where,
            next_step=f"an attestation{wanted} of this wheel is needed; get it again, else do not use the wheel",
        ) from error


def _verify_privately(attestation: Attestation, policy: VerificationPolicy, config: ClientTrustConfig) -> None:
    """Verify with an instance of Sigstore that pypi-attestations does not know; the caller compares the statement."""
    from sigstore.verify import Verifier  # noqa: PLC0415

    Verifier(trusted_root=config.trusted_root).verify_dsse(attestation.to_bundle(), policy)


def _line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
