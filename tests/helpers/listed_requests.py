"""Which requests of a build its target's list of downloads does not have: by a proxy, and by the build's own log."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from cpuwheels.config.download_lists import source_downloads
from cpuwheels.config.downloads import Download
from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.package_urls import DEBIAN
from cpuwheels.fetch.debian.mirrors import mirrors
from cpuwheels.fetch.requests import FILE, address


@dataclass(frozen=True)
class Expected:
    """What a build of a release may ask for.

    Attributes:
        rows: The list.
        addresses: Host and path of everything in it, on every mirror and in every repository that serves it.
    """

    rows: tuple[Download, ...]
    addresses: frozenset[str]

    def unlisted(self, asked: Iterable[str]) -> list[str]:
        """Return what a proxy was asked for that is not in the list.

        Of https a proxy sees the host alone; the build's own log has the whole address.

        Args:
            asked: ``CONNECT host:port`` and ``GET http://…``.
        """
        return [one for one in asked if not self._is_listed(*one.partition(" ")[::2])]

    def unlisted_in_log(self, dist: Path) -> tuple[int, list[str]]:
        """Return how many requests the log of the newest build has, and those that are not in the list."""
        log = max(dist.rglob(FILE), key=lambda path: path.stat().st_mtime)
        lines = log.read_text().splitlines()
        return len(lines), [line for line in lines if address(line.partition(" ")[2]) not in self.addresses]

    def _is_listed(self, method: str, target: str) -> bool:
        if method == "CONNECT":
            return target.removesuffix(":443") in {one.partition("/")[0] for one in self.addresses}
        return urlsplit(target).scheme == "http" and address(target) in self.addresses


def expected(root: Path, target: str, version: str) -> Expected:
    """Return what a build of a release for a project's target may ask for."""
    matrix = load_matrix(root)
    rows = source_downloads(root, matrix, matrix.target(target), version)
    urls = [url for row in rows for url in (row.location, row.page) if url]
    below = [row.location.removeprefix(DEBIAN) for row in rows if row.location.startswith(DEBIAN)]
    urls += [f"{mirror}{path}" for mirror in mirrors(matrix.debian.mirrors, os.environ) for path in below]
    if any(row.stage == "onednn" for row in rows):
        urls += [place for pin in matrix.onednn.values() for place in pin.repositories]
    return Expected(rows, frozenset(map(address, urls)))
