"""Names of fetched files: what a URL or an index says, if a file can have that name and no other meaning."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

_LONGEST = 240
"""Bytes; file systems take 255, of which a download under way needs some."""


def is_file_name(name: str) -> bool:
    """Return whether a name from outside is one that a file in a given folder can have, and nothing else."""
    return (
        0 < len(name.encode(errors="replace")) <= _LONGEST
        and name.isprintable()
        and not name.startswith(".")
        and not any(separator in name for separator in "/\\")
    )


def url_file_name(url: str) -> str:
    """Return the last part of a URL's path, decoded; empty if it ends with a slash.

    It may have slashes again, or be ``..``: `is_file_name` tells.

    Raises:
        ValueError: It is not a URL.
    """
    return unquote(urlsplit(url).path.rsplit("/", 1)[-1])
