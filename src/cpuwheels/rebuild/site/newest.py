"""The newest wheels of an index, as its list of commits has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from pydantic import BaseModel, ConfigDict, Field

from cpuwheels.core.errors import DownloadError, MalformedDataError, PublishError, UsageError
from cpuwheels.core.limits import PAGE_SIZE
from cpuwheels.core.models import Moment, Sha256, parse_as
from cpuwheels.fetch.http_stream import HttpFaultError
from cpuwheels.fetch.simple_index import read_page
from cpuwheels.rebuild.site.listing import WheelFile  # noqa: TC001  (likewise)

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMITS = "commits.json"
"""Of an index: its newest commits and releases with their wheels."""

_SCHEMES = frozenset({"http", "https"})


class _Part(BaseModel):
    # An index that a newer version wrote may have more fields.
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Wheel(_Part):
    filename: WheelFile
    path: str = Field(pattern=r"^files/[0-9a-f]{1,64}/[^/]+$", max_length=400)
    sha256: Sha256


class _Row(_Part):
    commit: str | None
    version: str
    made: Moment
    wheels: dict[str, _Wheel]


class _Commits(_Part):
    newest: tuple[_Row, ...]


@dataclass(frozen=True)
class NewWheel:
    """A wheel of an index.

    Attributes:
        name: Its file name.
        sha256: Its digest.
        url: Where it is.
        source: The commit or version that it was built from.
        target: What it was built for.
    """

    name: str
    sha256: str
    url: str
    source: str
    target: str

    @property
    def pinned_url(self) -> str:
        """Its address with its digest, which whoever fetches it compares."""
        return f"{self.url}#sha256={self.sha256}"


def newest_wheels(index: str, most: int, target: str | None) -> list[NewWheel]:
    """Return the newest wheels of an index, the newest commit's first.

    Args:
        index: Its address.
        most: How many.
        target: Only those for this target.

    Raises:
        UsageError: It is no address.
        PublishError: There is no index of cpuwheels at that address.
        DownloadError: It does not answer, or its list is damaged.
    """
    if urlsplit(index).scheme not in _SCHEMES:
        raise UsageError(
            f"{index!r:.200} is no address", where="--index", next_step="give one that begins with https://"
        )
    root = index.rstrip("/")
    page = f"{root}/{COMMITS}"
    try:
        found = read_page(page)
    except HttpFaultError as error:
        raise DownloadError(
            f"cannot read the index: {error}", where=page, next_step="check the address and the network, then try again"
        ) from error
    if found is None:
        raise PublishError(
            "there is no index of cpuwheels", where=page, next_step="give the address of an index's root"
        )
    try:
        commits = parse_as(_Commits, found.text, page, limit=PAGE_SIZE)
    except MalformedDataError as error:
        raise DownloadError(
            f"cannot read the index: its list of commits is {error.what}",
            where=page,
            next_step="tell those who keep the index, or try a newer version of cpuwheels",
        ) from error
    wheels: dict[str, NewWheel] = {}
    for one in _wheels(commits, root):
        if target in {None, one.target}:
            wheels.setdefault(one.sha256, one)
    return list(wheels.values())[:most]


def _wheels(commits: _Commits, root: str) -> Iterator[NewWheel]:
    for row in sorted(commits.newest, key=lambda one: one.made, reverse=True):
        for target, wheel in sorted(row.wheels.items()):
            if wheel.path.endswith(f"/{wheel.filename}"):
                url = f"{root}/{quote(wheel.path)}"
                yield NewWheel(wheel.filename, wheel.sha256, url, row.commit or row.version, target)
