"""The list of what a rebuilder has rebuilt, as the folder that is served has it: ``rebuilds.json``.

Nothing in it counts for anybody: it says where the signed statements are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from cpuwheels.core.models import Moment, Sha256, parse_as

if TYPE_CHECKING:
    from pathlib import Path

LIST = "rebuilds.json"
FOLDER = "rebuilds"
"""Below it there is a folder for each wheel, named by its digest, and in that one for each rebuild of it."""

LARGEST = 16 << 20
"""Bytes of a list; a rebuild takes 0.4 KiB of it."""

WheelFile = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._+!-]+\.whl$", max_length=255)]


class _Part(BaseModel):
    # A list that a newer version wrote may have more fields.
    model_config = ConfigDict(frozen=True, extra="ignore")


class ListedRebuild(_Part):
    """A rebuild that came to its end."""

    wheel: WheelFile
    """Name of the published wheel."""
    sha256: Sha256
    """Its digest."""
    result: Literal["reproduced", "differs"]
    rebuilt: Sha256
    """Digest of the wheel that came out."""
    moment: Moment
    """When the rebuild began, as its statement says: ISO 8601, UTC."""
    folder: Annotated[str, StringConstraints(pattern=rf"^{FOLDER}/[0-9a-f]{{64}}/\d{{8}}T\d{{6}}Z$")]
    """Where its statement and its report are, below the list's own folder."""
    envelope: Sha256 | None = None
    """Digest of the signed statement; None if it is not signed."""


class FailedRebuild(_Part):
    """A wheel that could not be rebuilt: nothing is said of its bytes."""

    wheel: WheelFile
    sha256: Sha256
    moment: Moment
    """Of the last attempt."""
    attempts: int = Field(ge=0)
    """Those that failed for a reason of their own; not those that the network ended."""
    reason: Annotated[str, StringConstraints(max_length=1000)]


class Listing(_Part):
    """What a rebuilder has rebuilt, and what it could not; nothing in it counts without the signed statements."""

    format: Literal[1] = 1
    rebuilds: tuple[ListedRebuild, ...] = ()
    """By wheel, the newest rebuild of each last."""
    failed: tuple[FailedRebuild, ...] = ()
    """Wheels of which there is no rebuild."""

    def render(self) -> bytes:
        """Return it as JSON."""
        return (self.model_dump_json(indent=1) + "\n").encode()


def read_listing(content: bytes, where: str | Path) -> Listing:
    """Return a list that somebody wrote.

    Raises:
        MalformedDataError: It is none.
    """
    return parse_as(Listing, content, where, limit=LARGEST)
