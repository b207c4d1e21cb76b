"""The provenance that is published with a wheel: its statement, and signatures of it that were verified."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from packaging.version import Version

from cpuwheels.attestation.envelope import statement_in
from cpuwheels.attestation.files import PROVENANCE, About, about
from cpuwheels.attestation.pep740 import statements_in
from cpuwheels.attestation.statement import check_build, check_statement
from cpuwheels.core.errors import CpuwheelsError, ProvenanceError, PublishError, WheelError
from cpuwheels.core.urls import without_userinfo
from cpuwheels.index.entry import Signed
from cpuwheels.index.layout import SIGNED, link, wheel_path
from cpuwheels.pipeline.recorded_build import LOCAL_TREE
from cpuwheels.pipeline.slsa import LOCAL_BUILDER, SUFFIX, Platform, statement_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cpuwheels.attestation.verify import Trust
    from cpuwheels.index.bucket import Bucket
    from cpuwheels.index.entry import Entry
    from cpuwheels.pipeline.in_toto import ProvenanceStatement

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def signed_beside(
    wheel: Path, entry: Entry, record: bytes | None, trust: Trust | None, address: str | None = None
) -> tuple[Signed | None, dict[str, bytes]]:
    """Return what an index says of the provenance next to a wheel, and its files by their names.

    Args:
        wheel: The file.
        entry: What the index says of it.
        record: Its build record as it is published; None if none is.
        trust: Whose signatures count; a signature is published only if it was verified.
        address: Where the users of the index reach it.

    Raises:
        PublishError: A statement or a signature is not this wheel's, or nothing says whose signatures count.
    """
    try:
        found = about(wheel)
        if found.statement is None and not found.signed:
            return None, {}
        files, by = _checked(found, wheel, entry, record, trust)
    except (ProvenanceError, WheelError) as error:
        raise PublishError(
            f"the provenance of {wheel.name} cannot be published: {error.what}",
            where=error.where,
            output=error.output,
            next_step=error.next_step,
        ) from error
    digests = {kind: hashlib.sha256(content).hexdigest() for kind, content in files.items()}
    url = _url(entry, address) if "provenance" in files else None
    return Signed(**digests, by=by, url=url), {f"{wheel.name}{SIGNED[kind]}": files[kind] for kind in files}


def signed_files(bucket: Bucket, entry: Entry) -> dict[str, bytes | None]:
    """Return the files of a published wheel's provenance, by what an entry calls them; None for one that is missing."""
    told = [kind for kind in SIGNED if entry.signed and getattr(entry.signed, kind)]
    return {kind: bucket.read(f"{wheel_path(entry)}{SIGNED[kind]}") for kind in told}


def listed(entry: Entry, content: bytes) -> bool:
    """Return whether a file of its provenance is the one that an entry tells."""
    digests = {getattr(entry.signed, kind) for kind in SIGNED} if entry.signed else set()
    return hashlib.sha256(content).hexdigest() in digests


def merged(now: Signed | None, before: Signed | None, files: Mapping[str, bytes | None]) -> Signed | None:
    """Return what is published of a wheel's provenance: what was, completed with what is new.

    Args:
        now: What lies next to the wheel.
        before: What the index said before.
        files: What the index has, by what an entry calls it.
    """
    if before is None or (now is None and all(files.get(kind) for kind in SIGNED if getattr(before, kind))):
        return before or now
    kept = {kind: getattr(before, kind) for kind in SIGNED if _whole(before, kind, files.get(kind))}
    new = {kind: getattr(now, kind) for kind in SIGNED if kind not in kept and getattr(now, kind, None)}
    left = {kind: getattr(before, kind) for kind in SIGNED if kind not in {*kept, *new} and files.get(kind) is not None}
    digests = kept | new | left
    signatures = {"envelope", "provenance"}
    by = before.by if signatures & (digests.keys() - new.keys()) else ()
    by += now.by if now and signatures & new.keys() else ()
    url = (before.url or (now.url if now else None)) if "provenance" in digests else None
    return Signed(**digests, by=tuple(dict.fromkeys(by)), url=url) if digests else None


def _whole(said: Signed, kind: str, content: bytes | None) -> bool:
    wanted = getattr(said, kind)
    return wanted is not None and content is not None and hashlib.sha256(content).hexdigest() == wanted


def faults_of(entry: Entry, files: Mapping[str, bytes | None]) -> Iterator[str]:
    """Yield what is wrong with the provenance of a published wheel.

    Args:
        entry: What the index says of the wheel.
        files: By what the index calls them; None for one that is missing.
    """
    said = entry.signed
    if said is None:
        return
    for kind, suffix in SIGNED.items():
        wanted, content = getattr(said, kind), files.get(kind)
        if wanted is None:
            continue
        path = f"{wheel_path(entry)}{suffix}"
        if content is None:
            yield f"{path} is missing"
        elif hashlib.sha256(content).hexdigest() != wanted:
            yield f"{path} has other bytes than its pages say"
        else:
            yield from _statement_faults(kind, content, entry, path)


def _statement_faults(kind: str, content: bytes, entry: Entry, path: str) -> Iterator[str]:
    try:
        for statement in _statements(kind, content, path):
            check_statement(statement, entry.filename, entry.sha256, path)
    except CpuwheelsError as error:
        yield f"{path}: {error.what}"


def _statements(kind: str, content: bytes, path: str) -> list[bytes]:
    """Return the statements in a file, signed or not; whether a signature is right is not asked."""
    if kind == "statement":
        return [content]
    if kind == "provenance":
        return statements_in(content, path)
    return [statement_in(content, path)]


def _checked(
    found: About, wheel: Path, entry: Entry, record: bytes | None, trust: Trust | None
) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Return the files that are published, by what the index calls them, and who signed."""
    where = wheel.parent
    files: dict[str, bytes] = {}
    if found.statement is not None:
        statement = check_build(found.statement, wheel.name, entry.sha256, where / f"{wheel.name}{SUFFIX}")
        _check_record(statement, found.statement, wheel, record)
        _check_asked(statement, wheel, entry)
        if not found.signed:
            _check_unsigned(statement, wheel)
        files["statement"] = found.statement
    if not found.signed:
        return files, ()
    if trust is None:
        raise ProvenanceError(
            "it is signed, and nothing says whose signature counts",
            where=where,
            next_step="name whom you trust with --trusted-key, or with --identity and --issuer",
        )
    from cpuwheels.attestation.verify import verify_about  # noqa: PLC0415  (with what verifies)

    # Whoever signs here trusts what was written by that alone, and an object of others may have been there before.
    own = {name: one for name, one in found.attestations.items() if not name.endswith(PROVENANCE)}
    counted = About(
        found.statement,
        found.envelope if trust.keys else None,
        found.attestations if trust.identity else own if trust.anybody else {},
    )
    verified = verify_about(counted, wheel.name, entry.sha256, trust, where)
    _check_asked(verified.statement, wheel, entry)
    if counted.envelope is not None:
        files["envelope"] = counted.envelope
    if counted.attestations:
        files["provenance"] = _object(counted.attestations, wheel)
    return files, verified.by


def _check_asked(statement: ProvenanceStatement, wheel: Path, entry: Entry) -> None:
    """Refuse a statement about another target or source than those that the index has the wheel of.

    Raises:
        ProvenanceError: It is one.
    """
    definition = statement.predicate.build_definition
    target, source = (str(definition.external_parameters.get(name)) for name in ("target", "source"))
    used = {
        (one.digest or {}).get("gitCommit", "") for one in definition.resolved_dependencies if one.stage == "source"
    }
    wrong = sorted(used - {"", entry.commit}) if entry.commit else []
    if target != entry.target or source not in {entry.commit, Version(entry.version).public, LOCAL_TREE} or wrong:
        raise ProvenanceError(
            f"the statement says target {target} and source {', '.join(wrong) or source}; the wheel is of target "
            f"{entry.target} and source {entry.commit or entry.version}",
            where=wheel.with_name(f"{wheel.name}{SUFFIX}"),
            next_step="do not publish it; read what the commit does to its own record",
        )


def _check_unsigned(statement: ProvenanceStatement, wheel: Path) -> None:
    """Refuse a statement that names a build platform which has not signed it.

    Raises:
        ProvenanceError: It is one.
    """
    builder = statement.predicate.run_details.builder.id
    if builder != LOCAL_BUILDER:
        raise ProvenanceError(
            f"the statement names the builder {builder}, which has not signed it",
            where=wheel.with_name(f"{wheel.name}{SUFFIX}"),
            next_step="put the signature next to the wheel, or build it again",
        )


def _object(attestations: Mapping[str, bytes], wheel: Path) -> bytes:
    from cpuwheels.attestation.pep740 import attestations_of, provenance_object  # noqa: PLC0415

    found: list[Any] = []
    for name, content in sorted(attestations.items(), reverse=True):
        found += attestations_of(content, wheel.with_name(name))
    return provenance_object(found, wheel.parent)


def _check_record(statement: ProvenanceStatement, content: bytes, wheel: Path, record: bytes | None) -> None:
    """Refuse a statement unless the record that is published says the same; whoever signed it may name the builder.

    Raises:
        ProvenanceError: It does not.
    """
    made = None
    if record is not None:
        run = statement.predicate.run_details
        platform = Platform(run.builder.id, (run.metadata and run.metadata.invocation_id) or "")
        made = statement_of(record, wheel.parent, platform).render()
    if made != content:
        raise ProvenanceError(
            "the statement does not say what the build record says",
            where=wheel.with_name(f"{wheel.name}{SUFFIX}"),
            next_step="publish the files that one build left, or build the wheel again",
        )


def _url(entry: Entry, address: str | None) -> str | None:
    """Return the address of a wheel's object; PEP 740 wants a whole one, over a connection that nobody changes."""
    parts = urlsplit(address or "")
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        return None
    return f"{without_userinfo(address or '').rstrip('/')}/{link('', wheel_path(entry))}{PROVENANCE}"
