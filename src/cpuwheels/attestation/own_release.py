"""SLSA provenance of a release of this project itself, made from its commit and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from cpuwheels.pipeline.slsa import BUILD_TYPE, PARAMETERS, Platform

if TYPE_CHECKING:
    from collections.abc import Mapping

RELEASE_BUILD_TYPE = "urn:cpuwheels:build-type:release:v1"
"""docs/releases.md describes it."""

RELEASE_PARAMETERS = frozenset({"version"})
"""Names of all external parameters."""

WHEELS: Mapping[str, frozenset[str]] = {BUILD_TYPE: PARAMETERS}
"""Build type of the wheels of vLLM, with the names of its external parameters."""

ANY_FILE: Mapping[str, frozenset[str]] = {**WHEELS, RELEASE_BUILD_TYPE: RELEASE_PARAMETERS}
"""Those of all files that this project makes."""


def release_statement(
    name: str,
    sha256: str,
    *,
    version: str,
    commit: str,
    tools: str,
    repository: str = "",
    platform: Platform | None = None,
) -> ProvenanceStatement:
    """Return the provenance of an sdist or a wheel of this project.

    Args:
        name: Of the file.
        sha256: Its digest.
        version: Of the release; its tag is the version behind a ``v``.
        commit: Of this project.
        tools: Digest of locks/dev.txt, which names the build backend and what it needs with their digests.
        repository: Address of the repository, if it is known.
        platform: Who built; the machine of whoever ran the command if not given.
    """
    where = platform or Platform()
    source = ResourceDescriptor(
        name="cpuwheels",
        uri=f"git+{repository}@refs/tags/v{version}" if repository else None,
        digest={"gitCommit": commit},
        annotations={"stage": "source", "version": version},
    )
    backend = ResourceDescriptor(name="locks/dev.txt", digest={"sha256": tools}, annotations={"stage": "build-tools"})
    return ProvenanceStatement(
        subject=(Subject(name=name, digest={"sha256": sha256}),),
        predicate=SlsaProvenance(
            build_definition=BuildDefinition(
                build_type=RELEASE_BUILD_TYPE,
                external_parameters={"version": version},
                resolved_dependencies=(source, backend),
            ),
            run_details=RunDetails(
                builder=Builder(id=where.builder),
                metadata=BuildMetadata(invocation_id=where.invocation) if where.invocation else None,
            ),
        ),
    )
