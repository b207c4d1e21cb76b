"""Package indexes: the files of a project on a page of the simple API (PEP 503, PEP 691)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from cpuwheels.core.digests import SHA256
from cpuwheels.core.errors import DownloadError
from cpuwheels.core.limits import PAGE, PAGE_SIZE
from cpuwheels.core.parse import parse_json
from cpuwheels.fetch.file_names import is_file_name, url_file_name
from cpuwheels.fetch.http_stream import HttpFaultError, http_answer
from cpuwheels.fetch.requests import current

if TYPE_CHECKING:
    from cpuwheels.core.limits import Patience

_FORMATS = "application/vnd.pypi.simple.v1+json, text/html;q=0.2"
_FRAGMENT = re.compile(r"sha256=(?P<digest>[0-9a-f]{64})")
_CHARSET = re.compile(r";\s*charset\s*=\s*\"?(?P<name>[^\s\";]+)", re.IGNORECASE)
_CHARSETS = {"iso-8859-1": "latin-1", "latin-1": "latin-1", "latin1": "latin-1", "us-ascii": "ascii", "ascii": "ascii"}
"""What a page may be in besides UTF-8; Python would also take names of codecs that are none for text."""

# Python's parser of HTML takes hours for a page of anchors that do not end. No character here is looked at twice.
_ANCHOR = re.compile(r"<a\s([^<>]*)", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?(?:-->|$)", re.DOTALL)
_HREF = re.compile(r"""(?:^|\s)href\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"']+))""", re.IGNORECASE)

_SCHEMES = frozenset({"http", "https"})
_OK, _NOT_FOUND = 200, 404


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


def index_files(page: str, *, setting: str, patience: Patience = PAGE) -> list[IndexFile] | None:
    """Return the files on a project's page; None if the index has no such page.

    Args:
        page: URL of the page.
        setting: Setting that names another index, for messages.
        patience: How long the index is waited for.

    Raises:
        DownloadError: The index does not answer, or not as PEP 503 or PEP 691 have it.
    """
    try:
        found = read_page(page, headers={"Accept": _FORMATS}, patience=patience)
        files = None if found is None else _files(found)
    except (HttpFaultError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = str(error) if isinstance(error, HttpFaultError) else f"{type(error).__name__}: {error}"
        raise DownloadError(
            f"cannot read the package index: {why}",
            where=page,
            next_step=f"check the network, or set {setting} to an index that can be reached",
        ) from error
    if files and (requests := current()):
        requests.learn((file.url, file.sha256) for file in files)
    return files


@dataclass(frozen=True)
class Page:
    """A page of an index.

    Attributes:
        text: Its text.
        url: Where it was in the end.
        is_json: Whether it is JSON (PEP 691).
    """

    text: str
    url: str
    is_json: bool


def read_page(url: str, *, headers: dict[str, str] | None = None, patience: Patience = PAGE) -> Page | None:
    """Return a page; None if there is none.

    Raises:
        HttpFaultError: There is no answer, or none that is a page.
    """
    with http_answer(url, most=PAGE_SIZE, headers=headers, patience=patience) as (head, content):
        if head.status == _NOT_FOUND:
            return None
        if head.status != _OK:
            raise HttpFaultError(f"HTTP status {head.status}")
        if head.headers.get("content-encoding", "identity") != "identity":
            raise HttpFaultError("it is compressed, although it was asked for as it is")
        raw = b"".join(content)
    kind = head.headers.get("content-type", "")
    charset = match["name"].lower() if (match := _CHARSET.search(kind)) else "utf-8"
    is_json = "json" in kind.partition(";")[0]
    text = raw.decode("utf-8" if is_json else _CHARSETS.get(charset, "utf-8"), "strict" if is_json else "replace")
    if not is_json and "<html" in text.lower() and "</html" not in text.lower():
        raise HttpFaultError("the page is cut off")
    return Page(text, head.url, is_json)


def _files(page: Page) -> list[IndexFile]:
    if page.is_json:
        files = parse_json(page.text, page.url)["files"]
        return [_file(page, one["filename"], one["url"], one.get("hashes", {}).get("sha256")) for one in files]
    names = [(url_file_name(url), url) for url in _links(page.text)]
    # What leads to a page, as above a list of files, or to somebody's mail, is no file.
    return [
        _file(page, name, url, fragment_digest(url))
        for name, url in names
        if name not in {"", ".", ".."} and urlsplit(urljoin(page.url, url)).scheme in _SCHEMES
    ]


def _links(text: str) -> list[str]:
    found = (_HREF.search(anchor) for anchor in _ANCHOR.findall(_COMMENT.sub("", text)))
    return [unescape(match[1] or match[2] or match[3] or "") for match in found if match]


def _file(page: Page, name: Any, url: Any, sha256: Any) -> IndexFile:  # noqa: ANN401  (what JSON may have there)
    if not isinstance(name, str) or not isinstance(url, str):
        raise ValueError("a file has no name and URL")  # noqa: TRY004  (of the page)
    if not is_file_name(name):
        raise ValueError(f"{name[:200]!r} is not a name for a file")
    where = urljoin(page.url, url.split("#", 1)[0])
    if urlsplit(where).scheme not in _SCHEMES:
        raise ValueError(f"{name} is at {where[:200]!r}, which is no http(s) URL")
    digest = sha256.lower() if isinstance(sha256, str) else ""
    return IndexFile(name, where, digest if SHA256.fullmatch(digest) else None)


def fragment_digest(url: str) -> str | None:
    """Return the sha256 in the fragment of a URL (PEP 503), if it has one."""
    match = _FRAGMENT.fullmatch(urlsplit(url).fragment)
    return match["digest"] if match else None
