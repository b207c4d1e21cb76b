"""The wheel whose kernels are tested: ours or somebody else's, checked before anything is installed."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from email.parser import HeaderParser
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import UnusableWheelError
from cpuwheels.kernels.tcmalloc import PRELOADED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from cpuwheels.config.matrix import Target

_LIBRARY = re.compile(r"vllm/(_C(?:_[A-Z0-9]+)?)(?:\.abi3)?\.so")
"""Upstream's kernel libraries: ``_C``, and one for each other instruction set."""

_PLATFORM, INTEL_OPENMP = "vllm/platforms/cpu.py", "libiomp5.so"


@dataclass(frozen=True)
class Preloads:
    """What vLLM preloads into the processes of a server that compute.

    Attributes:
        allocator: Whether the wheel holds an allocator for them.
        openmp: The OpenMP runtime that its platform looks for first, by its file's name; empty for that of torch.
    """

    allocator: bool = False
    openmp: str = ""


@dataclass(frozen=True)
class KernelWheel:
    """A wheel with kernels.

    Attributes:
        path: The file.
        sha256: Its digest.
        version: Its version, local label included.
        torch: The one torch version that it requires, without local label.
        libraries: Names of its kernel libraries and where each is in the wheel, ``_C`` first; no chooser.
        preloads: What its processes are given.
        requires: What its metadata says that it requires, extras included.
    """

    path: Path
    sha256: str
    version: str
    torch: str
    libraries: Mapping[str, str]
    preloads: Preloads = Preloads()
    requires: tuple[str, ...] = ()


def read_wheel(path: Path, target: Target, markers: Mapping[str, str], option: str = "--wheel") -> KernelWheel:
    """Read what kernels a wheel has and what it is for.

    Args:
        path: The file.
        target: What it has to be built for.
        markers: Environment markers of the target, for its requirements.
        option: Where it was given, for messages.

    Raises:
        UnusableWheelError: It is not a wheel, is for another platform, holds no kernel library, or does not
            require exactly one version of torch.
    """
    try:
        name, version, _, tags = parse_wheel_filename(path.name)
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            metadata_name = next(name for name in names if name.endswith(".dist-info/METADATA"))
            metadata = HeaderParser().parsestr(archive.read(metadata_name).decode())
            platform = archive.read(_PLATFORM).decode() if _PLATFORM in names else ""
    except (OSError, zipfile.BadZipFile, StopIteration, InvalidWheelFilename) as error:
        why = "is not a wheel" if path.exists() else "is not there"
        raise UnusableWheelError(f"{path} {why}", where=option, next_step="give the path of a vLLM wheel") from error
    inside = canonicalize_name(metadata.get("Name", "")), metadata.get("Version", "")
    if inside != (name, str(version)):
        raise UnusableWheelError(
            f"{path.name} says inside that it is {' '.join(inside)}",
            where=path,
            next_step="give the wheel its own name back",
        )
    platforms = sorted({tag.platform for tag in tags})
    if not any(platform.endswith(f"_{target.machine}") for platform in platforms):
        raise UnusableWheelError(
            f"{path.name} is for {', '.join(platforms)}, not for {target.machine}",
            where=path,
            next_step="give a wheel for this target, or use the parity session of the wheel's own target",
        )
    libraries = _libraries(names, target)
    if not libraries:
        raise UnusableWheelError(
            f"{path.name} holds no kernel library (vllm/_C*.so)",
            where=path,
            next_step="give a wheel with CPU kernels; one for another device, or of Python code alone, has none",
        )
    requires = metadata.get_all("Requires-Dist", [])
    torch = exact_torch(path, requires, markers)
    return KernelWheel(
        path=path,
        sha256=file_digest(path),
        version=str(version),
        torch=torch,
        libraries=libraries,
        preloads=Preloads(
            allocator=any(PRELOADED.fullmatch(name) for name in names),
            openmp=INTEL_OPENMP if INTEL_OPENMP in platform else "",
        ),
        requires=tuple(requires),
    )


def _libraries(names: Iterable[str], target: Target) -> dict[str, str]:
    found = {match[1]: name for name in sorted(names) if (match := _LIBRARY.fullmatch(name))}
    # In a wheel of somebody else's the module of that name may be the library itself.
    if not found.keys().isdisjoint(library.name for library in target.libraries):
        found.pop(target.chooser or "", None)
    return found


def exact_torch(path: Path, requirements: Iterable[str], markers: Mapping[str, str]) -> str:
    """Return the version of torch that a wheel requires, without local label.

    Args:
        path: The wheel, for messages.
        requirements: Its ``Requires-Dist``.
        markers: Environment markers of the machine that it is for.

    Raises:
        UnusableWheelError: It does not require exactly one version.
    """
    for text in requirements:
        requirement = Requirement(text)
        applies = requirement.marker is None or requirement.marker.evaluate(dict(markers) | {"extra": ""})
        exact = [spec.version for spec in requirement.specifier if spec.operator == "==" and "*" not in spec.version]
        if requirement.name == "torch" and applies and exact:
            return Version(exact[0]).public
    raise UnusableWheelError(
        f"{path.name} does not require one version of torch",
        where=path,
        next_step="give a vLLM wheel for this target's processor",
    )
