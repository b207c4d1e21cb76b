"""What describes an object: an in-toto statement that names what it is and its digest, signed or not.

A key does not prove what has it. So who may write is decided by signatures: a description counts if a trusted key
signed it, and an object if its digest is the described one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from cpuwheels.config.installation import own_version
from cpuwheels.core.errors import MalformedDataError, ProvenanceError
from cpuwheels.core.models import Sha256  # noqa: TC001  (pydantic reads the annotations)
from cpuwheels.core.parse import parse_json
from cpuwheels.core.trust import Trust
from cpuwheels.pipeline.in_toto import Statement, Subject
from cpuwheels.shared.archive import LARGEST, SUFFIX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from securesystemslib.signer import Key, Signer

LARGEST_DESCRIPTION = 64 << 10
"""Bytes."""

TYPE: Literal["urn:cpuwheels:shared-entry:v1"] = "urn:cpuwheels:shared-entry:v1"
"""No statement about a wheel has this type, so that none can be taken for a description."""

FORMAT = "v1"
NAME = "description.json"

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z-]{0,39}$")]
Key_ = Annotated[str, StringConstraints(pattern=r"^(?:[0-9a-f]{24}|tables)$")]


class Described(BaseModel):
    """What an object is."""

    # Readers have to ignore fields that they do not know.
    model_config = ConfigDict(frozen=True, extra="ignore")

    kind: Name
    key: Key_
    trust: Literal["", "from-commits"] = ""
    """Who vouches for the source that it was made from, as `Trust` has it."""
    sha256: Sha256
    """Of the object."""
    size: Annotated[int, Field(ge=1, le=LARGEST)]
    tree: Sha256
    """Of everything in it that is the same in every build."""
    cpuwheels: Annotated[str, StringConstraints(max_length=100)] = ""
    """Version that wrote it."""

    @property
    def folder(self) -> str:
        """Return where its objects are in a place."""
        return folder_of(self.kind, self.key, Trust(self.trust))

    @property
    def object(self) -> str:
        """Return the path of the object in a place."""
        return f"{self.folder}/{self.sha256}{SUFFIX}"

    def statement(self) -> bytes:
        """Return it as a statement."""
        said = Statement(
            subject=(Subject(name=f"{self.kind}/{self.key}{SUFFIX}", digest={"sha256": self.sha256}),),
            predicate_type=TYPE,
            predicate=self.model_dump(exclude={"sha256"}),
        )
        return (json.dumps(said.model_dump(mode="json", by_alias=True), indent=1, sort_keys=True) + "\n").encode()


@dataclass(frozen=True)
class Signed:
    """A description, and who signed it.

    Attributes:
        described: What it says.
        signer: Id of the key; empty if no signature was asked for.
    """

    described: Described
    signer: str = ""


def folder_of(kind: str, key: str, trust: Trust) -> str:
    """Return the folder of an entry's objects in a place."""
    return "/".join(filter(None, (FORMAT, trust.value, kind, key)))


def description_path(kind: str, key: str, trust: Trust) -> str:
    """Return the path of an entry's description in a place."""
    return f"{folder_of(kind, key, trust)}/{NAME}"


def describe(kind: str, key: str, trust: Trust, *, sha256: str, size: int, tree: str) -> Described:
    """Return the description of an object; see `Described` for the arguments.

    Raises:
        ValueError: It is too large, or has a name that no object has.
    """
    return Described.model_validate(
        {
            "kind": kind,
            "key": key,
            "trust": trust.value,
            "sha256": sha256,
            "size": size,
            "tree": tree,
            "cpuwheels": own_version(),
        }
    )


def render(described: Described, signer: Signer | None) -> bytes:
    """Return a description as it is written: in an envelope (DSSE) if it is signed.

    Raises:
        ProvenanceError: The key does not sign.
    """
    if signer is None:
        return described.statement()
    from cpuwheels.attestation.envelope import sign_envelope  # noqa: PLC0415  (with what signs)

    return sign_envelope(described.statement(), signer)


def read_description(content: bytes, kind: str, key: str, trust: Trust, keys: Sequence[Key] | None) -> Signed:
    """Return what a description says of the entry that was asked for.

    Args:
        content: The description.
        kind: What was asked for.
        key: Likewise.
        trust: Likewise.
        keys: Any of them has to have signed it; None if nobody has to.

    Raises:
        ProvenanceError: No trusted key signed it, it is no description, or it describes something else.
    """
    where = description_path(kind, key, trust)
    signer = ""
    if keys is not None:
        from cpuwheels.attestation.envelope import verify_envelope  # noqa: PLC0415  (with what verifies)

        content, signer = verify_envelope(content, keys, where)
    else:
        content = _unwrapped(content, where)
    found = _described(content, where)
    if (found.kind, found.key, found.trust) != (kind, key, trust.value):
        raise _refused(f"it describes {'/'.join(filter(None, (found.trust, found.kind, found.key)))}", where)
    return Signed(found, signer)


def _unwrapped(content: bytes, where: str) -> bytes:
    """Return the statement of a description, signed or not."""
    from cpuwheels.attestation.envelope import statement_in  # noqa: PLC0415  (what else is in it is not needed here)

    try:
        data = parse_json(content, where, limit=LARGEST_DESCRIPTION)
    except MalformedDataError as error:
        raise _refused(f"it is {error.what}", where) from error
    return statement_in(content, where) if isinstance(data, dict) and "payload" in data else content


def _described(content: bytes, where: str) -> Described:
    try:
        data: dict[str, Any] = parse_json(content, where, limit=LARGEST_DESCRIPTION)
        said = Statement.model_validate(data, by_alias=True, by_name=False)
        if said.predicate_type != TYPE or len(said.subject) != 1:
            raise _refused(f"its type is {said.predicate_type}, not {TYPE}", where)
        sha256 = said.subject[0].digest.get("sha256")
        return Described.model_validate({**(said.predicate or {}), "sha256": sha256}, strict=True)
    except MalformedDataError as error:
        raise _refused(f"it is {error.what}", where) from error
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        raise _refused(f"{'.'.join(map(str, fault['loc'])) or 'the whole'}: {fault['msg']}", where) from error


def _refused(why: str, where: str) -> ProvenanceError:
    return ProvenanceError(
        f"the description is refused: {why}", where=where, next_step="find out who wrote it into the shared store"
    )
