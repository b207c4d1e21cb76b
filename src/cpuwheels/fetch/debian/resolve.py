"""``nox -s lock``: the packages of a ``locks/<name>.yaml`` resolved anew against the mirrors."""

from __future__ import annotations

import logging
import lzma
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from debian.deb822 import Release

from cpuwheels.config.debian_lock import DebianLock
from cpuwheels.core.capture import capture
from cpuwheels.core.errors import DigestMismatchError, DownloadError
from cpuwheels.core.filesystem import storage_errors, write_atomic
from cpuwheels.core.models import load_yaml
from cpuwheels.fetch.debian.dependencies import closure, read_index
from cpuwheels.fetch.download import Pinned, download, mirrored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpuwheels.config.debian_lock import DebianPackage
    from cpuwheels.fetch.debian.dependencies import Index

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

_COMPONENT = "main"
_HEADER = """\
# `packages` is written by `nox -s lock`, everything above it by hand. Every file is pinned by its content, so
# it does not matter which mirror serves it.
"""

log = logging.getLogger(__name__)


def relock(path: Path, mirrors: Sequence[str], *, keyring: Path = KEYRING) -> DebianLock:
    """Resolve a lock's packages to what the mirrors have now and rewrite the file.

    The suites' indexes are checked against their ``InRelease`` file, and that against Debian's archive
    key where ``gpgv`` and the key are on the machine; where they are not, a warning says so.

    Args:
        path: The lock; its ``packages`` are replaced.
        mirrors: Debian mirrors in order.
        keyring: Debian's archive keys, as its package ``debian-archive-keyring`` installs them.

    Raises:
        MatrixError: The file does not fit the model.
        DownloadError: No mirror serves a suite.
        DigestMismatchError: An index is not what its suite announces, or is not signed by Debian.
        ToolchainError: A suite lacks a package.
        StoreError: The file cannot be written.
    """
    old = load_yaml(path, DebianLock)
    packages: dict[str, DebianPackage] = {}
    with storage_errors(Path(tempfile.gettempdir())), tempfile.TemporaryDirectory() as folder:
        for suite, roots in old.suites.items():
            index = fetch_index(suite, old.architecture, mirrors, Path(folder), keyring)
            taken = closure(index, roots, leave_out=old.leave_out, dependencies=old.dependencies)
            # Where two suites have a package, the one named first in the lock wins.
            packages = {package.name: package for package in taken} | packages
    new = old.model_copy(update={"packages": tuple(packages[name] for name in sorted(packages))})
    with storage_errors(path):
        write_atomic(path, lock_text(new))
    return new


def lock_text(lock: DebianLock) -> str:
    """Return a lock as YAML, its packages sorted and one key to a line."""
    data = lock.model_dump(mode="json", exclude_defaults=True)
    body = yaml.safe_dump(data, sort_keys=False, width=110, allow_unicode=True)
    return _HEADER + body


def fetch_index(suite: str, architecture: str, mirrors: Sequence[str], folder: Path, keyring: Path) -> Index:
    """Fetch a suite's index of one architecture and check it against the suite's signed list.

    Raises:
        DownloadError: No mirror serves it.
        DigestMismatchError: It is not what the suite announces, or not signed by Debian.
    """
    release = folder / f"{suite}.InRelease"
    urls = mirrored(f"dists/{suite}/InRelease", mirrors)
    download(Pinned(f"the list of Debian suite {suite}", urls, None), release)
    check_signature(release, urls[0], keyring)
    name = f"{_COMPONENT}/binary-{architecture}/Packages.xz"
    entry = next((entry for entry in Release(release.read_bytes())["SHA256"] if entry["name"] == name), None)
    if entry is None:
        raise DownloadError(
            f"Debian suite {suite} has no architecture {architecture}",
            where=urls[0],
            next_step="correct the lock's architecture",
        )
    index = folder / f"{suite}.Packages.xz"
    pinned = Pinned(
        f"the index of Debian suite {suite}",
        mirrored(f"dists/{suite}/{name}", mirrors),
        entry["sha256"],
        int(entry["size"]),
    )
    download(pinned, index)
    return read_index(suite, lzma.decompress(index.read_bytes()).decode())


def check_signature(release: Path, origin: str, keyring: Path) -> None:
    """Check a suite's list against Debian's archive keys, or warn that this machine cannot.

    Raises:
        DigestMismatchError: It is not signed by one of the keys.
    """
    gpgv = shutil.which("gpgv")
    if gpgv is None or not keyring.is_file():
        missing = "gpgv" if gpgv is None else keyring
        log.warning("%s is not on this machine: the signature of %s is not checked", missing, origin)
        return
    answer = capture([gpgv, "--quiet", "--keyring", keyring, release], both=True)
    if answer.returncode != 0:
        raise DigestMismatchError(
            f"{release.name} is not signed by Debian: {answer.output.strip().splitlines()[-1]}",
            where=origin,
            next_step="use another mirror (CPUWHEELS_DEBIAN_MIRROR), or update debian-archive-keyring",
        )
