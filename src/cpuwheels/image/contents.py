"""What an image is composed of, for its bill of materials: Debian and Python packages, torch, and the wheel."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from cpuwheels.config.python_lock import pinned_packages
from cpuwheels.core.digests import text_digest
from cpuwheels.core.errors import ImageError
from cpuwheels.core.zip_archive import open_zip
from cpuwheels.wheel.dist_info import dist_info_of
from cpuwheels.wheel.sbom.schema import FILE, LONGEST, read_document

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cpuwheels.config.debian_lock import DebianLock, DebianPackage


@dataclass(frozen=True)
class Locked:
    """A lock of Python packages, as an image was made from it.

    Attributes:
        file: Its name.
        sha256: Of what was installed of it; it has the digests of each package's files.
        packages: Name and version of each package in it.
    """

    file: str
    sha256: str
    packages: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Wheel:
    """The wheel in an image.

    Attributes:
        file: Its file name.
        version: With its local label.
        sha256: Of the file.
        sbom: Serial number and version of its bill of materials as a BOM-Link; empty if it has none.
        sbom_sha256: Of that file.
    """

    file: str
    version: str
    sha256: str
    sbom: str = ""
    sbom_sha256: str = ""


@dataclass(frozen=True)
class Contents:
    """What an image is composed of.

    Attributes:
        debian: Its Debian packages.
        python: Its locks of Python packages.
        torch: Version of the torch from a wheel; empty if it is one of the Debian packages.
        wheel: The wheel of vLLM.
    """

    debian: tuple[DebianPackage, ...]
    python: tuple[Locked, ...]
    torch: str
    wheel: Wheel


def debian_packages(locks: Iterable[DebianLock]) -> tuple[DebianPackage, ...]:
    """Return the packages of locks, each once."""
    found = {package.name: package for lock in locks for package in lock.packages}
    return tuple(found[name] for name in sorted(found))


def locked(lock: Path, text: str) -> Locked:
    """Return what is installed of a lock of Python packages.

    Args:
        lock: The file.
        text: What is installed of it.
    """
    packages = sorted((str(canonicalize_name(name)), version) for name, version in pinned_packages(text))
    return Locked(lock.name, text_digest(text), tuple(packages))


def wheel_in(wheel: Path, version: str, sha256: str) -> Wheel:
    """Return a wheel with the link to its bill of materials.

    Args:
        wheel: The file.
        version: With its local label.
        sha256: Of the file.

    Raises:
        ImageError: Its bill of materials is none, or has no serial number.
        UnsafeArchiveError: It is no wheel that can be read.
    """
    with open_zip(wheel) as archive:
        name = f"{dist_info_of(archive.names)}/{FILE}"
        if name not in archive.infos:
            return Wheel(wheel.name, version, sha256)
        content = archive.read(name, LONGEST)
    try:
        data = read_document(content)
        link = f"urn:cdx:{data['serialNumber'].removeprefix('urn:uuid:')}/{data.get('version', 1)}"
    except (KeyError, ValueError) as error:
        raise ImageError(
            f"the bill of materials of {wheel.name} cannot be linked: {error}",
            where=wheel,
            next_step="build the wheel again",
        ) from error
    return Wheel(wheel.name, version, sha256, link, hashlib.sha256(content).hexdigest())
