"""Package indexes: the files of a project on a page of the simple API (PEP 503, PEP 691)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from html.parser import HTMLParser
from urllib.parse import unquote, urljoin, urlsplit

from cpuwheels.core.errors import DownloadError

_FORMATS = "application/vnd.pypi.simple.v1+json, text/html;q=0.2"
_SHA256 = re.compile(r"sha256=(?P<digest>[0-9a-f]{64})")
_NOT_FOUND = 404


@dataclass(frozen=True)
class IndexFile:
    """A file that an index offers.

    Attributes:
        name: Its name.
        url: Where it is, without a fragment.
        sha256: Its digest, if the index gives it.
    """

    name: str
    url: str
    sha256: str | None


def index_files(page: str, *, setting: str) -> list[IndexFile] | None:
    """Return the files on a project's page; None if the index has no such page.

    Args:
        page: URL of the page.
        setting: Setting that names another index, for messages.

    Raises:
        DownloadError: The index does not answer, or not as PEP 503 or PEP 691 have it.
    """
    import httpx  # noqa: PLC0415  (slow to import, and often not needed)

    try:
        answer = httpx.get(page, headers={"Accept": _FORMATS}, follow_redirects=True, timeout=30)
        if answer.status_code == _NOT_FOUND:
            return None
        answer.raise_for_status()
        found = _files(answer.text, answer.headers.get("content-type", ""))
        return [IndexFile(name, urljoin(str(answer.url), url), sha256) for name, url, sha256 in found]
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DownloadError(
            f"cannot read the package index: {type(error).__name__}: {error}",
            where=page,
            next_step=f"check the network, or set {setting} to an index that can be reached",
        ) from error


def _files(text: str, content_type: str) -> list[tuple[str, str, str | None]]:
    if "json" in content_type:
        files = json.loads(text)["files"]
        return [(file["filename"], _plain(file["url"]), file.get("hashes", {}).get("sha256")) for file in files]
    parser = _Anchors()
    parser.feed(text)
    return [(unquote(urlsplit(url).path.rsplit("/", 1)[-1]), _plain(url), fragment_digest(url)) for url in parser.urls]


def _plain(url: str) -> str:
    return url.split("#", 1)[0]


def fragment_digest(url: str) -> str | None:
    """Return the sha256 in the fragment of a URL (PEP 503), if it has one."""
    match = _SHA256.fullmatch(urlsplit(url).fragment)
    return match["digest"] if match else None


class _Anchors(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.urls.extend(value for name, value in attrs if name == "href" and value)
