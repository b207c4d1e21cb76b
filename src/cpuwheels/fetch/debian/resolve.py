"""``nox -s lock``: the packages of a ``locks/<name>.yaml`` resolved anew against the mirrors."""

from __future__ import annotations

import hashlib
import logging
import lzma
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from cpuwheels.config.debian_lock import DebianLock
from cpuwheels.core.errors import DigestMismatchError, DownloadError, SignatureError
from cpuwheels.core.filesystem import storage_errors, write_atomic
from cpuwheels.core.models import load_yaml
from cpuwheels.fetch.debian.dependencies import closure, read_index
from cpuwheels.fetch.debian.release import KEYRING, find_gpgv, read_list
from cpuwheels.fetch.download import Pinned, download, mirrored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpuwheels.config.debian_lock import DebianPackage
    from cpuwheels.fetch.debian.dependencies import Index
    from cpuwheels.fetch.debian.release import Listed, SuiteList

_COMPONENT = "main"
_UNPACKING_MEMORY = 1 << 28
"""Bytes that unpacking an index may take; what Debian packs with ``xz -9`` takes 65 MiB."""
_HEADER = """\
# `packages` is written by `nox -s lock`, everything above it by hand. Every file is pinned by its content, so
# it does not matter which mirror serves it.
"""

log = logging.getLogger(__name__)


def relock(path: Path, mirrors: Sequence[str], *, keyring: Path = KEYRING, now: datetime | None = None) -> DebianLock:
    """Resolve a lock's packages to what the mirrors have now and rewrite the file.

    The suites' indexes are checked against their ``InRelease`` file, and that with ``gpgv`` against Debian's archive
    keys. A mirror whose list is refused is named in a warning, and the next one is asked.

    Args:
        path: The lock; its ``packages`` are replaced.
        mirrors: Debian mirrors in order.
        keyring: Debian's archive keys, as its package ``debian-archive-keyring`` installs them.
        now: The time; the clock's if not given.

    Raises:
        MatrixError: The file does not fit the model.
        DownloadError: No mirror serves a suite.
        SignatureError: No mirror's list of a suite is signed, the suite's and up to date; or this cannot be checked.
        DigestMismatchError: An index is not what its suite announces.
        ToolchainError: A suite lacks a package.
        StoreError: The file cannot be written.
    """
    old = load_yaml(path, DebianLock)
    new = Indexes(mirrors, keyring, now or datetime.now(UTC)).resolve(old)
    with storage_errors(path):
        write_atomic(path, lock_text(new))
    return new


class Indexes:
    """The indexes of suites, each fetched once, and locks resolved against them.

    Args:
        mirrors: Debian mirrors in order.
        keyring: Debian's archive keys.
        now: The time.
        as_of: An earlier time; a list that is not valid now is accepted if it was valid then.
    """

    def __init__(self, mirrors: Sequence[str], keyring: Path, now: datetime, as_of: datetime | None = None) -> None:
        self._mirrors, self._keyring = mirrors, keyring
        self._times = (now, as_of) if as_of else (now,)
        self._known: dict[tuple[str, str], Index] = {}
        self.dates: dict[str, datetime] = {}
        """When the list of each suite was made."""

    def resolve(self, old: DebianLock) -> DebianLock:
        """Return a lock with the packages that its suites have now.

        Raises:
            CpuwheelsError: As `relock`.
        """
        packages: dict[str, DebianPackage] = {}
        for suite, roots in old.suites.items():
            index = self._index(suite, old.architecture)
            taken = closure(index, roots, leave_out=old.leave_out, dependencies=old.dependencies)
            # Where two suites have a package, the one named first in the lock wins.
            packages = {package.name: package for package in taken} | packages
        return old.model_copy(update={"packages": tuple(packages[name] for name in sorted(packages))})

    def _index(self, suite: str, architecture: str) -> Index:
        key = (suite, architecture)
        if key not in self._known:
            find_gpgv(self._keyring)
            with storage_errors(Path(tempfile.gettempdir())), tempfile.TemporaryDirectory() as folder:
                index, date = fetch_index(suite, architecture, self._mirrors, Path(folder), self._keyring, self._times)
            self._known[key] = index
            self.dates[suite] = date
        return self._known[key]


def lock_text(lock: DebianLock) -> str:
    """Return a lock as YAML, its packages sorted and one key to a line."""
    data = lock.model_dump(mode="json", exclude_defaults=True)
    body = yaml.safe_dump(data, sort_keys=False, width=110, allow_unicode=True)
    return _HEADER + body


def fetch_index(
    suite: str, architecture: str, mirrors: Sequence[str], folder: Path, keyring: Path, times: Sequence[datetime]
) -> tuple[Index, datetime]:
    """Fetch a suite's index of one architecture, check it against the suite's signed list, and tell its list's date.

    Raises:
        DownloadError: No mirror serves it.
        SignatureError: No mirror has a list that is signed, the suite's and up to date.
        DigestMismatchError: It is not what the suite announces.
    """
    mirror, found = _fetch_list(suite, mirrors, folder, keyring, times)
    name = f"{_COMPONENT}/binary-{architecture}/Packages"
    packed, unpacked = found.files.get(f"{name}.xz"), found.files.get(name)
    if packed is None or unpacked is None:
        raise DownloadError(
            f"Debian suite {suite} has no architecture {architecture}",
            where=f"{mirror}/dists/{suite}/InRelease",
            next_step="correct the lock's architecture",
        )
    index = folder / f"{suite}.Packages.xz"
    urls = mirrored(f"dists/{suite}/{name}.xz", [mirror, *(other for other in mirrors if other != mirror)])
    what = f"the index of Debian suite {suite}"
    download(Pinned(what, urls, packed.sha256, packed.size), index)
    return read_index(suite, unpack_index(index, unpacked, what, urls[0])), found.date


def unpack_index(path: Path, listed: Listed, what: str, where: str) -> str:
    """Return the text of an index, of which no more is unpacked than the suite's list states.

    Args:
        path: The index, packed with xz.
        listed: What the list states of the unpacked file.
        what: What it is, for messages.
        where: Where it came from.

    Raises:
        DigestMismatchError: It is not what the list states.
    """
    try:
        unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_UNPACKING_MEMORY)
        data = unpacker.decompress(path.read_bytes(), listed.size + 1)
    except lzma.LZMAError as error:
        raise DigestMismatchError(f"{what} cannot be unpacked: {error}", where=where) from error
    if len(data) != listed.size or hashlib.sha256(data).hexdigest() != listed.sha256:
        raise DigestMismatchError(
            f"{what} does not unpack to the {listed.size} bytes that the suite's list states",
            where=where,
            next_step="use another mirror (CPUWHEELS_DEBIAN_MIRROR)",
        )
    return data.decode(errors="replace")


def _fetch_list(
    suite: str, mirrors: Sequence[str], folder: Path, keyring: Path, times: Sequence[datetime]
) -> tuple[str, SuiteList]:
    """Return the first list that passes every check, and its mirror."""
    refused: SignatureError | None = None
    faults: list[DownloadError] = []
    for mirror in mirrors:
        release = folder / f"{suite}.InRelease"
        urls = mirrored(f"dists/{suite}/InRelease", [mirror])
        try:
            download(Pinned(f"the list of Debian suite {suite}", urls, None), release)
            found = _read_valid(release, suite, mirror, keyring, times)
        except DownloadError as error:
            faults.append(error)
        except SignatureError as error:
            log.warning("refused: %s (%s)", error.what, error.where)
            refused = refused or error
        else:
            log.info("%s of %s is signed by %s", suite, found.date.date(), ", ".join(found.signers))
            return mirror, found
    if refused is not None:
        raise refused
    raise DownloadError(
        f"cannot fetch the list of Debian suite {suite}",
        where=faults[0].where if faults else "matrix.yaml: debian.mirrors",
        output="\n".join(fault.output for fault in faults),
        next_step="check the network, or name a mirror (docs/mirrors.md)",
    )


def _read_valid(release: Path, suite: str, mirror: str, keyring: Path, times: Sequence[datetime]) -> SuiteList:
    """Return what a list states if it passes every check at one of some times; the first one's error counts."""
    refused: SignatureError | None = None
    for now in times:
        try:
            return read_list(release, suite, mirror, keyring=keyring, now=now)
        except SignatureError as error:
            refused = refused or error
    assert refused is not None  # noqa: S101  (there is always a time)
    raise refused
