"""vLLM releases: sdists from a package index, pinned by sha256."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.utils import InvalidSdistFilename, parse_sdist_filename
from packaging.version import InvalidVersion, Version

from cpuwheels.core.digests import SHA256, make_key, tree_names
from cpuwheels.core.errors import DownloadError, SourceError
from cpuwheels.core.filesystem import write_atomic
from cpuwheels.core.trust import Trust
from cpuwheels.fetch.download import Pinned, fetch
from cpuwheels.fetch.simple_index import index_files
from cpuwheels.fetch.tarball import unpack_tar
from cpuwheels.source.result import KIND, Source, epoch_of
from cpuwheels.source.tree_check import check_links, check_names

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store

PROJECT = "vllm"
DEFAULT_INDEX = "https://pypi.org/simple"
_EPOCH_FILE = ".cpuwheels-epoch"


@dataclass(frozen=True)
class SdistRequest:
    """A release in a package index.

    Attributes:
        version: PEP 440 version.
        sha256: Pinned digest of the sdist.
        size: Its bytes, if known.
        urls: Where it is; looked up on the index when empty.
        pinned_by: For people: who vouches for the digest.
        trust: Who does, for the stores.
    """

    version: str
    sha256: str
    size: int | None
    urls: tuple[str, ...]
    pinned_by: str
    trust: Trust = Trust.LOCAL

    @property
    def key(self) -> str:
        """Return the store's key of the unpacked source."""
        return make_key(sdist=self.sha256, layout=1)

    def get(self, store: Store, reporter: Reporter) -> Source:
        """Fetch, verify and unpack the sdist, or find it in the store.

        Raises:
            DownloadError: It is on no mirror and not in the store.
            DigestMismatchError: The bytes are not the pinned ones.
            UnsafeArchiveError: It holds members that may not be unpacked.
            SourceError: It is not an sdist of this version.
            UnsuitableSourceError: A name may not be in a source, or a link leaves it.
        """
        name = f"{PROJECT} {self.version} sdist"

        def unpack(folder: Path) -> None:
            reporter.info(f"fetching the {name}")
            archive = fetch(
                Pinned(name, self._urls(store), self.sha256, self.size),
                store,
                on_bytes=lambda done, total: reporter.download(name, done, total),
            )
            epoch = unpack_tar(archive, folder)
            _check_version(folder, self.version)
            check_names(names := tree_names(folder), name)
            check_links(folder, names, name)
            write_atomic(folder / _EPOCH_FILE, f"{epoch_of(epoch)}\n")

        folder = store.get(KIND, self.key, unpack)
        return Source(
            version=str(Version(self.version)),
            folder=folder,
            digest=self.sha256,
            epoch=int((folder / _EPOCH_FILE).read_text()),
            origin=f"sdist sha256:{self.sha256}, {self.pinned_by}",
            version_from="release",
            released=True,
        )

    def _urls(self, store: Store) -> tuple[str, ...]:
        index = os.environ.get("CPUWHEELS_PYPI_INDEX")
        if self.urls and not index:
            return self.urls
        if store.find("downloads", self.sha256[:24]):
            return self.urls or (f"{PROJECT}-{self.version}.tar.gz",)
        try:
            found = find_sdist(index or DEFAULT_INDEX, PROJECT, self.version)
        except DownloadError:
            if not self.urls:
                raise
            found = None  # the pinned URLs may work
        if not found and not self.urls:
            raise SourceError(
                f"{PROJECT} {self.version} has no sdist there",
                where=index or DEFAULT_INDEX,
                next_step="check the version; CPUWHEELS_PYPI_INDEX names another index",
            )
        return (found, *self.urls) if found else self.urls


def check_sha256(text: str) -> str:
    """Return a digest given on the command line.

    Raises:
        SourceError: It is not 64 hex digits.
    """
    digest = text.strip().lower().removeprefix("sha256:")
    if not SHA256.fullmatch(digest):
        raise SourceError(
            f"{text!r} is not a sha256: 64 hex digits are needed, got {len(digest)} characters",
            where="--sha256",
            next_step="copy it from the file's page on the package index",
        )
    return digest


def find_sdist(index: str, project: str, version: str) -> str | None:
    """Return the URL of a version's sdist on a simple index (PEP 503 or PEP 691), or None.

    Raises:
        DownloadError: The index does not answer.
    """
    page = f"{index.rstrip('/')}/{project}/"
    files = index_files(page, setting="CPUWHEELS_PYPI_INDEX")
    if files is None:
        raise DownloadError(
            f"cannot read the package index: it has no {project}",
            where=page,
            next_step="set CPUWHEELS_PYPI_INDEX to an index that has it",
        )
    for file in files:
        try:
            found = parse_sdist_filename(file.name)
        except InvalidSdistFilename:
            continue
        if found == (project, Version(version)):
            return file.url
    return None


def _check_version(folder: Path, version: str) -> None:
    found = sdist_version(folder)
    if found is None or not _same_version(found, version):
        raise SourceError(
            f"the archive is {found or 'not an sdist: it has no PKG-INFO'}, not {PROJECT} {version}",
            where="PKG-INFO in the archive",
            next_step="give the version and the sha256 of the same file",
        )


def _same_version(found: str, wanted: str) -> bool:
    try:
        return Version(found) == Version(wanted)
    except InvalidVersion:
        return False


def sdist_version(folder: Path) -> str | None:
    """Return the version that an unpacked sdist's PKG-INFO names, or None if it is not an sdist."""
    info = folder / "PKG-INFO"
    if not info.is_file():
        return None
    lines = info.read_text(encoding="utf-8").splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("Version:")), None)
