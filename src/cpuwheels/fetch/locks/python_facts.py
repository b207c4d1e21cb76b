"""When a Python package was uploaded, how large its wheel is, and under which licence: from its index and its wheel."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)

from cpuwheels.config.downloads import PYPI
from cpuwheels.core.errors import CpuwheelsError
from cpuwheels.core.parse import parse_json
from cpuwheels.core.text import parse_headers, printable
from cpuwheels.core.zip_archive import open_zip
from cpuwheels.fetch.http_range import NoRangesError, remote_file
from cpuwheels.fetch.http_stream import HttpFaultError
from cpuwheels.fetch.locked_wheels import INDEX_VARIABLE
from cpuwheels.fetch.simple_index import read_page

if TYPE_CHECKING:
    from collections.abc import Mapping

_FORMAT = "application/vnd.pypi.simple.v1+json"
_METADATA = re.compile(r"[^/]+\.dist-info/METADATA")
_MACHINE = re.compile(r"-(any|.*manylinux.*_x86_64)\.whl$")
_LONGEST = 60
_ERRORS = (HttpFaultError, CpuwheelsError, NoRangesError, OSError, ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True)
class Release:
    """A version of a package on its index.

    Attributes:
        uploaded: When its first file was; None if the index does not say.
        url: Of the file for x86-64, else of its first.
        sha256: Of that file.
        size: Bytes of it.
    """

    uploaded: datetime | None
    url: str
    sha256: str
    size: int | None


def releases(name: str, environ: Mapping[str, str] = os.environ) -> dict[str, Release]:
    """Return the versions of a package on its index; none if it does not answer, or not with what is needed (PEP 691).

    Args:
        name: Of the package.
        environ: May name another index than PyPI.
    """
    index = environ.get(INDEX_VARIABLE) or PYPI
    try:
        page = read_page(f"{index.rstrip('/')}/{canonicalize_name(name)}/", headers={"Accept": _FORMAT})
        files: list[dict[str, Any]] = parse_json(page.text, page.url)["files"] if page and page.is_json else []
        grouped: dict[str, list[dict[str, Any]]] = {}
        for file in files:
            grouped.setdefault(_version(file["filename"]), []).append(file)
        return {version: _release(found) for version, found in grouped.items() if version}
    except _ERRORS:
        return {}


def licence_of(release: Release | None) -> str:
    """Return the licence that a wheel states; nothing if it states none, or cannot be read without fetching it."""
    if release is None or not release.url.endswith(".whl"):
        return ""
    try:
        with remote_file(release.url) as stream, open_zip(stream, where=release.url, members_too=False) as archive:
            (name,) = (name for name in archive.names if _METADATA.fullmatch(name))
            return stated_licence(archive.read(name))
    except _ERRORS:
        return ""


def stated_licence(metadata: bytes) -> str:
    """Return the licence of a ``METADATA``: its expression (PEP 639), else its classifiers, else its first line."""
    headers = parse_headers(metadata)
    if expression := headers.get("License-Expression", ""):
        return printable(expression)[:_LONGEST]
    kinds = [line.rpartition(" :: ")[2] for line in headers.get_all("Classifier", []) if line.startswith("License ::")]
    first = str(headers.get("License", "")).strip().partition("\n")[0]
    return printable(", ".join(kinds) or first)[:_LONGEST]


def _release(files: list[dict[str, Any]]) -> Release:
    moments = [_moment(file["upload-time"]) for file in files if "upload-time" in file]
    chosen = next((file for file in files if _MACHINE.search(file["filename"])), files[0])
    return Release(
        uploaded=min(moments, default=None),
        url=str(chosen["url"]),
        sha256=str(chosen.get("hashes", {}).get("sha256", "")),
        size=int(chosen["size"]) if "size" in chosen else None,
    )


def _version(name: str) -> str:
    try:
        if name.endswith(".whl"):
            return str(parse_wheel_filename(name)[1])
        return str(parse_sdist_filename(name)[1])
    except (InvalidWheelFilename, InvalidSdistFilename):
        return ""


def _moment(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)
