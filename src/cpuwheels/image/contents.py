"""What an image is composed of, for its bill of materials: Debian and Python packages, torch, and the wheel."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from cpuwheels.core.digests import text_digest
from cpuwheels.wheel.dist_info import dist_info_of
from cpuwheels.wheel.sbom.schema import FILE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cpuwheels.config.debian_lock import DebianLock, DebianPackage

_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


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
    packages = sorted((str(canonicalize_name(name)), version) for name, version in _PINNED.findall(text))
    return Locked(lock.name, text_digest(text), tuple(packages))


def wheel_in(wheel: Path, version: str, sha256: str) -> Wheel:
    """Return a wheel with the link to its bill of materials.

    Args:
        wheel: The file; one that this project built.
        version: With its local label.
        sha256: Of the file.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        name = f"{dist_info_of(names)}/{FILE}"
        if name not in names:
            return Wheel(wheel.name, version, sha256)
        content = archive.read(name)
    data = json.loads(content)
    link = f"urn:cdx:{data['serialNumber'].removeprefix('urn:uuid:')}/{data['version']}"
    return Wheel(wheel.name, version, sha256, link, hashlib.sha256(content).hexdigest())
