"""What a rebuilder states of a wheel: an in-toto statement about the published bytes, and how it went to rebuild them.

The predicate is SLSA's verification summary (VSA): an artifact is verified against a policy, and passes or fails.
What such a summary has no field for is in one extension field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from packaging.utils import parse_wheel_filename
from pydantic import AliasGenerator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic.alias_generators import to_camel

from cpuwheels.config.installation import own_version
from cpuwheels.config.package_urls import pypi
from cpuwheels.core.errors import MalformedDataError, ProvenanceError
from cpuwheels.core.models import Commit, Moment, Sha256  # noqa: TC001  (pydantic reads the annotations)
from cpuwheels.core.parse import parse_json
from cpuwheels.pipeline.in_toto import Digests, ResourceDescriptor, Statement, Subject, Uri

if TYPE_CHECKING:
    from pathlib import Path

VSA: Literal["https://slsa.dev/verification_summary/v1"] = "https://slsa.dev/verification_summary/v1"
POLICY = "urn:cpuwheels:policy:rebuild:v1"
"""The same bytes come out of a second build; docs/rebuild.md describes it."""

LOCAL_REBUILDER = "urn:cpuwheels:rebuilder:local"
"""A machine that only whoever ran the command, or whose key signed, vouches for."""

REPRODUCED, FAILED = "CPUWHEELS_REPRODUCED", "FAILED"
"""Levels that are verified; names of one's own may not begin with SLSA."""

SUFFIX = ".rebuild.json"
"""Of the statement's file, after the wheel's name."""

SIGNED_SUFFIX = ".rebuild.intoto.jsonl"
"""Of the statement in an envelope (DSSE)."""

LARGEST = 4 << 20
"""Bytes of a statement."""

_SLSA_VERSION = "1.2"
_MOST_MEMBERS = 50
_Line = Annotated[str, StringConstraints(max_length=1200)]


class _Part(BaseModel):
    # Readers have to ignore fields that they do not know.
    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=AliasGenerator(alias=to_camel), validate_by_name=True
    )


class Verifier(_Part):
    """Who verified."""

    id: Uri
    version: dict[str, str] | None = None


class Policy(_Part):
    """What the artifact was verified against."""

    uri: Uri


class Attestation(_Part):
    """A statement that was read for it."""

    uri: Uri
    digest: Digests


class ProgramStated(_Part):
    """The cpuwheels that built."""

    commit: Commit
    tree: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40,64}$")]
    """git's name of all of its files."""
    code: Sha256
    """Digest of its code."""


class Details(_Part):
    """How a rebuild went; SLSA's summary has no fields for it."""

    result: Literal["reproduced", "differs"]
    rebuilt: Subject
    """The wheel that came out."""
    program: ProgramStated
    parameters: dict[str, Any]
    """Of the build, as its provenance names them."""
    locked: bool
    """Whether the rebuild refused what is not pinned by content."""
    network: Literal["open", "closed"]
    sandbox: Annotated[str, StringConstraints(max_length=80)] = ""
    """What confined upstream's code."""
    machine: _Line = ""
    pinned: tuple[ResourceDescriptor, ...] = ()
    """What the rebuilt wheel was made from and with, each with its digest."""
    otherwise: tuple[_Line, ...] = Field(default=(), max_length=200)
    """What of it is not what the published wheel was made from."""
    differing: tuple[_Line, ...] = Field(default=(), max_length=_MOST_MEMBERS)
    """The first members that are not the same; empty for the archive as a whole."""
    remarks: tuple[_Line, ...] = Field(default=(), max_length=50)
    """What limits what the rebuild says."""


class Summary(_Part):
    """The predicate: SLSA's verification summary, with one extension field."""

    verifier: Verifier
    time_verified: Moment
    resource_uri: Uri
    policy: Policy
    input_attestations: tuple[Attestation, ...] = ()
    verification_result: Literal["PASSED", "FAILED"]
    verified_levels: tuple[str, ...]
    slsa_version: str = _SLSA_VERSION
    details: Details = Field(alias="cpuwheels_rebuild")


class RebuildStatement(Statement):
    """A statement that a published wheel was built again."""

    predicate_type: Literal["https://slsa.dev/verification_summary/v1"] = VSA
    predicate: Summary  # type: ignore[assignment]  # narrower than any predicate

    def render(self) -> bytes:
        """Return it as JSON, the same bytes for the same facts."""
        return (self.model_dump_json(by_alias=True, exclude_none=True, indent=1) + "\n").encode()


def make_statement(
    wheel: str, sha256: str, details: Details, *, rebuilder: str, moment: str, read: tuple[Attestation, ...] = ()
) -> RebuildStatement:
    """Return what is stated of a rebuild.

    Args:
        wheel: File name of the published wheel.
        sha256: Its digest.
        details: How it went.
        rebuilder: URI of who rebuilt it.
        moment: When that began: ISO 8601, UTC.
        read: Statements about the wheel that said how to rebuild it.
    """
    name, number, _, _ = parse_wheel_filename(wheel)
    same = details.result == "reproduced"
    return RebuildStatement(
        subject=(Subject(name=wheel, digest={"sha256": sha256}),),
        predicate=Summary(
            verifier=Verifier(id=rebuilder, version={"cpuwheels": own_version()}),
            time_verified=moment,
            resource_uri=pypi(name, str(number), wheel).to_string(),
            policy=Policy(uri=POLICY),
            input_attestations=read,
            verification_result="PASSED" if same else "FAILED",
            verified_levels=(REPRODUCED,) if same else (FAILED,),
            cpuwheels_rebuild=details,
        ),
    )


def check_rebuild(content: bytes, name: str, sha256: str, where: str | Path) -> RebuildStatement:
    """Return a rebuilder's statement about a wheel; whether its signature is right is asked elsewhere.

    Args:
        content: The statement.
        name: File name of the wheel.
        sha256: Digest of the wheel.
        where: What has the statement, for messages.

    Raises:
        ProvenanceError: It is no such statement, about something else, or says two things at once.
    """
    try:
        found = RebuildStatement.model_validate(parse_json(content, where, limit=LARGEST), by_alias=True, by_name=False)
    except MalformedDataError as error:
        raise _refused(f"it is {error.what}", where) from error
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place = ".".join(map(str, fault["loc"])) or "the whole"
        raise _refused(f"it is none: {place}: {fault['msg']}", where) from error
    subjects = [(subject.name, subject.digest.get("sha256")) for subject in found.subject]
    if subjects != [(name, sha256)]:
        said = ", ".join(f"{one} with sha256 {digest}" for one, digest in subjects)
        raise _refused(f"it is about {said}, not about {name} with sha256 {sha256}", where)
    summary, rebuilt = found.predicate, found.predicate.details.rebuilt
    if summary.policy.uri != POLICY:
        raise _refused(f"its policy is {summary.policy.uri}, not {POLICY}", where)
    same = (rebuilt.name, rebuilt.digest.get("sha256")) == (name, sha256)
    wanted = ("reproduced", "PASSED", (REPRODUCED,)) if same else ("differs", "FAILED", (FAILED,))
    if (summary.details.result, summary.verification_result, summary.verified_levels) != wanted:
        raise _refused("its result is not what the digest of the rebuilt wheel says", where)
    return found


def _refused(why: str, where: str | Path) -> ProvenanceError:
    return ProvenanceError(
        f"the statement of a rebuild is refused: {why}", where=where, next_step="get it again from the rebuilder"
    )
