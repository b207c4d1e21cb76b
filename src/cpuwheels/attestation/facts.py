"""What verified provenance says, as lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.core.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cpuwheels.attestation.verify import SignedProvenance
    from cpuwheels.pipeline.in_toto import ResourceDescriptor

_EACH = {"source", "patch", "onednn", "acl", "tcmalloc", "kernels", "cpuwheels"}
"""Stages whose inputs are listed one by one; of the others their number is."""


def lines_of(verified: SignedProvenance) -> Iterator[str]:
    """Yield what a wheel was built from, by whom and when; whoever wrote it, a terminal obeys none of it.

    Args:
        verified: Its provenance.
    """
    return map(printable, _lines(verified))


def _lines(verified: SignedProvenance) -> Iterator[str]:
    statement = verified.statement
    subject, predicate = statement.subject[0], statement.predicate
    definition, run = predicate.build_definition, predicate.run_details
    yield f"{subject.name}: sha256 {subject.digest['sha256']}"
    yield from (f"signed by {who}" for who in verified.by)
    yield f"built by {run.builder.id}{_version(run.builder.version)}"
    if run.metadata and run.metadata.finished_on:
        yield f"finished {run.metadata.finished_on}"
    asked = {name: _word(value) for name, value in sorted(definition.external_parameters.items())}
    given = ", ".join(f"{name} {value}" for name, value in asked.items())
    yield f"asked for: {given}"
    counted: dict[str, int] = {}
    without = []
    for one in definition.resolved_dependencies:
        if one.stage in _EACH:
            yield f"  {one.stage}: {_name(one)}"
        elif one.digest:
            counted[one.stage] = counted.get(one.stage, 0) + 1
        if not one.digest:
            without.append(one.name or one.uri or "")
    for stage, number in counted.items():
        yield f"  {stage}: {'1 file, with its digest' if number == 1 else f'{number} files, each with its digest'}"
    if without:
        yield f"  without the digest of what was fetched: {', '.join(without)}"


def _word(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _name(one: ResourceDescriptor) -> str:
    version = (one.annotations or {}).get("version", "")
    digest = ", ".join(f"{algorithm} {value}" for algorithm, value in sorted((one.digest or {}).items()))
    return " ".join(filter(None, [one.name, str(version), digest or one.uri]))


def _version(version: dict[str, str] | None) -> str:
    return f" ({', '.join(f'{name} {number}' for name, number in sorted(version.items()))})" if version else ""
