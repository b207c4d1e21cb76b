"""What the sites of rebuilders answered when they were asked last, as an index tells it: ``rebuilder-sites.json``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, StringConstraints, ValidationError

from cpuwheels.config.rebuilders import MOST, RebuilderName, SiteUrl
from cpuwheels.core.models import Moment, Strict
from cpuwheels.index.agreement import KeyId  # noqa: TC001  (pydantic reads the annotations)
from cpuwheels.index.layout import SITES

if TYPE_CHECKING:
    from cpuwheels.index.bucket import Bucket

_Line = Annotated[str, StringConstraints(max_length=400)]


class Site(Strict):
    """The site of one rebuilder."""

    name: RebuilderName
    url: SiteUrl
    keys: tuple[KeyId, ...]
    """Ids of its keys."""
    reached: Moment | None
    """When its list could be read last; None if it never could."""
    fault: _Line = ""
    """Why the site was not read to its end the last time; empty if it was."""
    refused: tuple[_Line, ...] = Field(default=(), max_length=20)
    """The first statements there that did not count the last time, and why."""
    agrees: int = Field(ge=0)
    """Wheels of which it got the same bytes."""
    differs: int = Field(ge=0)
    """Wheels of which it got others."""


class Sites(Strict):
    """What the sites of all known rebuilders answered."""

    format: Literal[1] = 1
    asked: Moment
    """When that was."""
    sites: tuple[Site, ...] = Field(max_length=MOST)


def read_sites(bucket: Bucket) -> Sites | None:
    """Return what an index tells of the sites; None if it tells nothing that can be read, which check-index names."""
    content = bucket.read(SITES)
    try:
        return None if content is None else Sites.model_validate_json(content)
    except ValidationError:
        return None
