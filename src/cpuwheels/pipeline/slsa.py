"""SLSA provenance of a wheel, made from its build record and nothing else, so that anybody can make it again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from cpuwheels.core.errors import WheelError
from cpuwheels.core.filesystem import write_atomic
from cpuwheels.pipeline.built_wheel import RECORD
from cpuwheels.pipeline.in_toto import (
    BuildDefinition,
    Builder,
    BuildMetadata,
    ProvenanceStatement,
    ResourceDescriptor,
    RunDetails,
    SlsaProvenance,
    Subject,
)
from cpuwheels.pipeline.recorded_build import parse_record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cpuwheels.config.downloads import Download
    from cpuwheels.pipeline.recorded_build import BuildParameters, BuildRecord

BUILD_TYPE = "urn:cpuwheels:build-type:wheel:v1"
"""docs/provenance.md describes it."""

LOCAL_BUILDER = "urn:cpuwheels:builder:local"
"""A machine that only whoever ran the command vouches for."""

SUFFIX = ".provenance.json"
"""Of the statement's file, after the wheel's name."""

_KEY = "urn:cpuwheels:key:"
"""Before the digest of what was made of an input, where the bytes that were fetched are not known."""

_NAMES = {
    "allow_fallbacks": "allowFallbacks",
    "debug_symbols": "debugSymbols",
    "upstream_kernels": "upstreamKernels",
    "upstream_speed": "upstreamSpeed",
    "kernels_from": "kernelsFrom",
    "source_date_epoch": "sourceDateEpoch",
}
PARAMETERS = frozenset({"target", "source", "toolchain", "locked", "checked", *_NAMES.values()})
"""Names of all external parameters."""


@dataclass(frozen=True)
class Platform:
    """Who built, as a statement names it.

    Attributes:
        builder: URI of the build platform.
        invocation: URI of the run there; if there is none, the record's digest names the run.
    """

    builder: str = LOCAL_BUILDER
    invocation: str = ""


def statement_of(record: bytes, folder: Path, platform: Platform | None = None) -> ProvenanceStatement:
    """Return the provenance of the wheel that a build record is about.

    Args:
        record: Content of ``record.json``.
        folder: Where it is, for messages.
        platform: Who built; the machine of whoever ran the command if not given.

    Raises:
        WheelError: It is not a record of this version of cpuwheels, or one that tells no inputs.
    """
    found = parse_record(record, folder)
    if found.parameters is None or not found.dependencies:
        raise WheelError(
            f"{RECORD} does not say what the wheel was made from, so no provenance can be made of it",
            where=folder,
            next_step="build the wheel again with this version",
        )
    try:
        return _statement(found, hashlib.sha256(record).hexdigest(), platform or Platform())
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        raise WheelError(
            f"{RECORD} says what no provenance can: {'.'.join(map(str, fault['loc']))}: {fault['msg']}",
            where=folder,
            next_step="build the wheel again with this version",
        ) from error


def _statement(found: BuildRecord, digest: str, platform: Platform) -> ProvenanceStatement:
    assert found.parameters is not None  # noqa: S101  (the caller has looked)
    tools = {"cpuwheels": found.tools["cpuwheels"]} if "cpuwheels" in found.tools else None
    return ProvenanceStatement(
        subject=(Subject(name=found.wheel.file, digest={"sha256": found.wheel.sha256}),),
        predicate=SlsaProvenance(
            build_definition=BuildDefinition(
                build_type=BUILD_TYPE,
                external_parameters=_external(found.parameters),
                internal_parameters=_internal(found),
                resolved_dependencies=tuple(map(_descriptor, found.dependencies)),
            ),
            run_details=RunDetails(
                builder=Builder(id=platform.builder, version=tools),
                metadata=BuildMetadata(
                    invocation_id=platform.invocation or f"sha256:{digest}", finished_on=_moment(found.built)
                ),
                byproducts=tuple(_byproducts(found, digest)),
            ),
        ),
    )


def write_statement(folder: Path) -> Path:
    """Write the provenance of the wheel in a folder next to it, and return the file.

    Raises:
        WheelError: There is no record, or not one of this version of cpuwheels.
    """
    content = (folder / RECORD).read_bytes()
    statement = statement_of(content, folder)
    path = folder / f"{statement.subject[0].name}{SUFFIX}"
    write_atomic(path, statement.render())
    return path


def built_locally(statement: ProvenanceStatement) -> ProvenanceStatement:
    """Return a statement as a build writes it, before a platform signs it as its own."""
    run = statement.predicate.run_details
    digests = [one.digest["sha256"] for one in run.byproducts or () if one.name == RECORD and one.digest]
    metadata = (run.metadata or BuildMetadata()).model_copy(
        update={"invocation_id": f"sha256:{digests[0]}" if digests else None}
    )
    builder = run.builder.model_copy(update={"id": LOCAL_BUILDER})
    details = run.model_copy(update={"builder": builder, "metadata": metadata})
    return statement.model_copy(update={"predicate": statement.predicate.model_copy(update={"run_details": details})})


def _external(parameters: BuildParameters) -> dict[str, Any]:
    """Return what was asked for; a parameter that was not given is left out."""
    given = parameters.model_dump(exclude_defaults=True)
    always: dict[str, Any] = {"locked": parameters.locked, "toolchain": parameters.toolchain}
    return {_NAMES.get(name, name): value for name, value in sorted((given | always).items())}


def _internal(record: BuildRecord) -> dict[str, Any]:
    return {
        "wheelKey": record.wheel_key,
        "kernelKey": record.kernel_key,
        "compiledInThisRun": record.jobs.compiled_in_this_run,
        "keptLibraries": list(record.kept_libraries),
        "alternates": list(record.alternates),
        "sandbox": record.sandbox.mechanism if record.sandbox else "",
        "processor": record.machine.get("processor", ""),
        "python": record.machine.get("python", ""),
    }


def _descriptor(download: Download) -> ResourceDescriptor:
    known = bool(download.uri or download.digest)
    facts = {
        "stage": download.stage,
        "version": download.version,
        "size": download.size,
        "contentKey": download.key if known else "",
    }
    return ResourceDescriptor(
        name=download.name,
        uri=download.uri or (None if known else f"{_KEY}{download.key}"),
        digest=download.digest or None,
        download_location=download.location or None,
        annotations={name: value for name, value in facts.items() if value},
    )


def _byproducts(record: BuildRecord, digest: str) -> Iterator[ResourceDescriptor]:
    for name, value in sorted({RECORD: digest, **record.byproducts}.items()):
        media = "application/json" if name.endswith(".json") else None
        yield ResourceDescriptor(name=name, digest={"sha256": value}, media_type=media)


def _moment(built: str) -> str:
    """Return a record's moment as the specification writes it: with a ``Z``."""
    return built.replace("+00:00", "Z")
