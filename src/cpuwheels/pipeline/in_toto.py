"""The models of an in-toto statement (v1) with SLSA provenance (v1), as their specifications describe the fields.

Readers have to ignore fields that they do not know, so these do, except in the parameters from outside of a build: a
verifier should refuse what it does not know there, and `cpuwheels.attestation` does.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AliasGenerator, BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

STATEMENT: Literal["https://in-toto.io/Statement/v1"] = "https://in-toto.io/Statement/v1"
SLSA: Literal["https://slsa.dev/provenance/v1"] = "https://slsa.dev/provenance/v1"
PAYLOAD = "application/vnd.in-toto+json"
"""Type of a statement in an envelope."""

Uri = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9+.-]*:\S+$", max_length=2048)]
Digests = dict[
    Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_./-]+$")],
    Annotated[str, StringConstraints(pattern=r"^[0-9a-f]+$")],
]
"""A digest in lower-case hex digits by algorithm."""


class _Part(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=AliasGenerator(alias=to_camel), validate_by_name=True
    )


class ResourceDescriptor(_Part):
    """A file, a commit or anything else that a build took or made."""

    name: str | None = None
    uri: Uri | None = None
    digest: Digests | None = None
    download_location: Uri | None = None
    media_type: str | None = None
    annotations: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _says_which(self) -> ResourceDescriptor:
        if not self.uri and not self.digest:
            msg = "a descriptor needs a URI or a digest"
            raise ValueError(msg)
        return self

    @property
    def stage(self) -> str:
        """What a dependency is for, as `cpuwheels.pipeline.slsa` writes it; empty if nothing says it."""
        return str((self.annotations or {}).get("stage", ""))


class Subject(_Part):
    """What a statement is about."""

    name: str = Field(min_length=1)
    digest: Digests = Field(min_length=1)


class BuildDefinition(_Part):
    """What a build was given."""

    build_type: Uri
    external_parameters: dict[str, Any]
    internal_parameters: dict[str, Any] | None = None
    resolved_dependencies: tuple[ResourceDescriptor, ...] = ()


class Builder(_Part):
    """Who built."""

    id: Uri
    version: dict[str, str] | None = None
    builder_dependencies: tuple[ResourceDescriptor, ...] | None = None


class BuildMetadata(_Part):
    """Which run it was."""

    invocation_id: str | None = None
    started_on: str | None = None
    finished_on: str | None = None


class RunDetails(_Part):
    """How the build went."""

    builder: Builder
    metadata: BuildMetadata | None = None
    byproducts: tuple[ResourceDescriptor, ...] | None = None


class SlsaProvenance(_Part):
    """The predicate."""

    build_definition: BuildDefinition
    run_details: RunDetails


class Statement(_Part):
    """A statement about files."""

    type_: Literal["https://in-toto.io/Statement/v1"] = Field(default=STATEMENT, alias="_type")
    subject: tuple[Subject, ...] = Field(min_length=1)
    predicate_type: Uri
    predicate: dict[str, Any] | None = None


class ProvenanceStatement(Statement):
    """A statement about how files were built."""

    predicate_type: Literal["https://slsa.dev/provenance/v1"] = SLSA
    predicate: SlsaProvenance  # type: ignore[assignment]  # narrower than any predicate

    def render(self) -> bytes:
        """Return it as JSON, the same bytes for the same facts."""
        return (self.model_dump_json(by_alias=True, exclude_none=True, indent=1) + "\n").encode()
