"""Verifying a wheel for strangers: who signed its provenance, whether it is this wheel's, and what that says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.attestation.envelope import verify_envelope
from cpuwheels.attestation.files import ENVELOPE, about
from cpuwheels.attestation.keyless import Identity, verify_attestation
from cpuwheels.attestation.keys import public_key
from cpuwheels.attestation.own_release import ANY_FILE, WHEELS
from cpuwheels.attestation.pep740 import attestations_of, builder_of
from cpuwheels.attestation.statement import check_build, check_statement
from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import ProvenanceError, UnusableWheelError
from cpuwheels.pipeline.in_toto import ProvenanceStatement
from cpuwheels.pipeline.slsa import LOCAL_BUILDER, SUFFIX, built_locally

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.attestation.files import About


@dataclass(frozen=True)
class Trust:
    """Whose signatures count.

    Attributes:
        keys: Files of public keys.
        identity: An identity that Sigstore knows.
        anybody: Whether every identity that Sigstore knows counts: for what this very process has signed.
        trust_config: Client trust configuration of an instance of Sigstore; the public one if not given.
        offline: Whether the keys of the public instance are not fetched anew.
    """

    keys: tuple[Path, ...] = ()
    identity: Identity | None = None
    anybody: bool = False
    trust_config: Path | None = None
    offline: bool = False


@dataclass(frozen=True)
class SignedProvenance:
    """The provenance of a wheel, after everything about it was verified.

    Attributes:
        statement: How it was built.
        by: Who signed that: ids of keys, and identities.
    """

    statement: ProvenanceStatement
    by: tuple[str, ...]


def verify_provenance(wheel: Path, trust: Trust) -> SignedProvenance:
    """Verify the provenance next to a file. Every signature of a kind that is trusted has to be right.

    Args:
        wheel: The file: a wheel of vLLM, or the wheel or the sdist of this project.
        trust: Whose signatures count.

    Raises:
        UnusableWheelError: There is no such file.
        ProvenanceError: There is no signature that counts, one is wrong, or what is signed is about something else.
    """
    try:
        sha256 = file_digest(wheel)
    except FileNotFoundError as error:
        raise UnusableWheelError(
            f"{wheel} is not there", where="WHEEL", next_step="give the path of a wheel"
        ) from error
    except OSError as error:
        raise ProvenanceError(
            f"the wheel cannot be read: {error.strerror}", where=wheel, next_step="give the path of a wheel"
        ) from error
    return verify_about(about(wheel), wheel.name, sha256, trust, wheel.parent, ANY_FILE)


def verify_about(
    found: About, name: str, sha256: str, trust: Trust, where: Path, kinds: Mapping[str, frozenset[str]] = WHEELS
) -> SignedProvenance:
    """Verify what is known about a wheel, as `verify_provenance` does.

    Args:
        found: What there is.
        name: File name of the wheel.
        sha256: Its digest.
        trust: Whose signatures count.
        where: Folder of the files, for messages.
        kinds: Build types that count, each with the names of its parameters.

    Raises:
        ProvenanceError: As for `verify_provenance`.
    """
    statements: list[ProvenanceStatement] = []
    by: list[str] = []
    file = where / f"{name}{SUFFIX}"
    unsigned = check_build(found.statement, name, sha256, file, kinds) if found.statement else None
    if trust.keys and found.envelope is not None:
        file = where / f"{name}{ENVELOPE}"
        payload, key = verify_envelope(found.envelope, [public_key(path) for path in trust.keys], file)
        statements.append(check_build(payload, name, sha256, file, kinds))
        by.append(f"key {key}")
    if trust.identity or trust.anybody:
        for file_name, content in found.attestations.items():
            attested = _attested(content, name, sha256, trust, where / file_name, kinds)
            statements += attested
            # Who only published it does not say how it was built.
            by += [trust.identity.name if trust.identity else "an identity that Sigstore knows"] if attested else []
    if not statements:
        raise _unsigned(found, name, trust, where)
    if any(one != statements[0] for one in statements):
        raise ProvenanceError(
            "the signed statements say different things about the wheel", where=where, next_step="do not use the wheel"
        )
    if unsigned is not None and unsigned not in (statements[0], built_locally(statements[0])):
        raise ProvenanceError(
            "the statement is refused: it does not say what was signed",
            where=where / f"{name}{SUFFIX}",
            next_step="remove it, or get it again; what was signed is right",
        )
    return SignedProvenance(statements[0], tuple(dict.fromkeys(by)))


def _attested(
    content: bytes, name: str, sha256: str, trust: Trust, where: Path, kinds: Mapping[str, frozenset[str]]
) -> list[ProvenanceStatement]:
    """Return the provenance in a file of attestations, each of which has to be right."""
    found: list[ProvenanceStatement] = []
    for one in attestations_of(content, where):
        verify_attestation(
            one, name, sha256, identity=trust.identity, config=trust.trust_config, where=where, offline=trust.offline
        )
        statement = check_statement(one.envelope.statement, name, sha256, where, kinds)
        if isinstance(statement, ProvenanceStatement):
            _check_builder(statement, builder_of(one), where)
            found.append(statement)
    return found


def _check_builder(statement: ProvenanceStatement, claimed: str, where: Path) -> None:
    """Refuse a statement that names another workflow as its builder than the one that signed it."""
    builder = statement.predicate.run_details.builder.id
    if builder not in {claimed, LOCAL_BUILDER}:
        raise ProvenanceError(
            f"the statement names the builder {builder}; it was signed by {claimed or 'nobody that has a name'}",
            where=where,
            next_step="do not use the wheel",
        )


def _unsigned(found: About, name: str, trust: Trust, where: Path) -> ProvenanceError:
    """Return the error for a file that nobody signed who counts.

    Raises:
        ProvenanceError: A key that is trusted cannot be read.
    """
    for key in trust.keys:
        public_key(key)
    there = [*(["signed with a key"] if found.envelope else []), *found.attestations]
    asked = [*map(str, trust.keys), *([trust.identity.name] if trust.identity else [])]
    trusted = f"{', '.join(asked) or 'nobody'} is trusted"
    return ProvenanceError(
        f"no signed provenance of {name} counts: there is {', '.join(there)}, and {trusted}"
        if there
        else f"{name} is not signed: there is no signed provenance next to it, and {trusted}",
        where=where,
        next_step="put the files about the wheel next to it; --trusted-key, or --identity, names whom you trust",
    )
