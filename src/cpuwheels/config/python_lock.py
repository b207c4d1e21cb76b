"""Locks of Python packages: the ``.txt`` that is installed, and the same with the name of each file (PEP 751)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pydantic import ValidationError

from cpuwheels.core.errors import MatrixError
from cpuwheels.core.models import Strict
from cpuwheels.core.parse import parse_toml
from cpuwheels.core.plain_file import read_plain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LARGEST = 4 << 20
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


class LockedFile(Strict):
    """A wheel or an sdist of a lock (PEP 751)."""

    project: str
    version: str
    name: str
    """Of the file."""
    url: str
    sha256: str
    size: int | None = None


def pinned_packages(text: str) -> list[tuple[str, str]]:
    """Return the name and version of each package of a lock as pip and uv install it, in its order."""
    return _PINNED.findall(text)


def pinned_digests(text: str) -> list[tuple[str, str, frozenset[str]]]:
    """Return name, version and SHA-256 digests (64 hex digits) of each package of such a lock that has digests."""
    return [
        (name, version, frozenset(digests))
        for block in text.replace("\\\n", " ").splitlines()
        for name, version in pinned_packages(block)
        if (digests := _HASH.findall(block))
    ]


def locked_files(lock: Path) -> list[LockedFile]:
    """Return the files of a lock (PEP 751).

    Raises:
        MatrixError: It is not one.
        MalformedDataError: It is not TOML.
        OSError: It cannot be read.
    """
    data = parse_toml(read_plain(lock, _LARGEST), lock, limit=_LARGEST)
    try:
        return [file for package in data["packages"] for file in _of(package)]
    except (KeyError, TypeError, AttributeError, ValidationError) as error:
        raise MatrixError(
            f"{lock.name} is not a lock of files with digests: {error!r}",
            where=lock,
            next_step="restore it from git or run nox -s lock",
        ) from error


def _of(package: dict[str, Any]) -> Iterator[LockedFile]:
    sdist = [package["sdist"]] if "sdist" in package else []
    for file in [*package.get("wheels", ()), *sdist]:
        yield LockedFile(
            project=package["name"],
            version=package["version"],
            name=unquote(file["url"].rpartition("/")[2]),
            url=file["url"],
            sha256=file["hashes"]["sha256"],
            size=file.get("size"),
        )
