"""What a wheel requires to be served: which lock fits it, and what an installation lacks."""

from __future__ import annotations

from dataclasses import dataclass
from email.parser import HeaderParser
from importlib.metadata import distributions
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cpuwheels.config.python_lock import pinned_packages

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

COMPANIONS = ("torchaudio", "torchcodec", "torchvision")
"""Packages that vLLM requires without a version, and that PyTorch's index has for each torch; PyPI's are for CUDA."""

APART = ("torch", *COMPANIONS)
"""Not in a lock: they come from the same place as torch."""


@dataclass(frozen=True)
class Unmet:
    """A requirement that an environment does not meet.

    Attributes:
        name: Of the package, in canonical form.
        requirement: With the versions that would do.
        by: The package that requires it.
    """

    name: str
    requirement: str
    by: str


def requirements_of(lines: Iterable[str], markers: Mapping[str, str]) -> list[Requirement]:
    """Return the requirements that an installation without extras has to meet.

    Args:
        lines: ``Requires-Dist`` of the metadata.
        markers: The environment, as PEP 508 has it.
    """
    found = [Requirement(line) for line in lines]
    return [one for one in found if one.marker is None or one.marker.evaluate(dict(markers) | {"extra": ""})]


def moved_requirements(lines: Iterable[str], markers: Mapping[str, str]) -> list[str]:
    """Return what upstream requires by URL, as triton-cpu: in our wheels it is an extra, pinned to the URL's version.

    Args:
        lines: ``Requires-Dist`` of the metadata.
        markers: The environment, as PEP 508 has it.
    """
    found = []
    for one in map(Requirement, lines):
        extra = dict(markers) | {"extra": canonicalize_name(one.name)}
        labelled = any("+" in each.version for each in one.specifier)
        if labelled and one not in requirements_of([str(one)], markers) and one.marker and one.marker.evaluate(extra):
            found.append(f"{one.name}{one.specifier}")
    return found


def lock_fits(lock: str, requirements: Iterable[Requirement]) -> list[str]:
    """Return the requirements that a lock does not meet; none if it fits.

    Args:
        lock: Requirements file with one version of each package.
        requirements: Of the wheel; those in `APART` are not looked for.
    """
    pinned = {canonicalize_name(name): version for name, version in pinned_packages(lock)}
    return [
        str(one)
        for one in requirements
        if (name := canonicalize_name(one.name)) not in APART
        and not (name in pinned and one.specifier.contains(pinned[name], prereleases=True))
    ]


def unmet(site: Path, markers: Mapping[str, str]) -> list[Unmet]:
    """Return what the packages in a folder require, but is missing or has another version.

    Args:
        site: The folder that everything is installed into.
        markers: Its environment, as PEP 508 has it.
    """
    there, wanted = {}, []
    for one in distributions(path=[str(site)]):
        there[canonicalize_name(one.metadata["Name"])] = one.version
        wanted += [(need, one.metadata["Name"]) for need in requirements_of(one.requires or (), markers)]
    return [
        Unmet(canonicalize_name(need.name), f"{need.name}{need.specifier}", by)
        for need, by in sorted(wanted, key=lambda pair: (pair[0].name, pair[1]))
        if (version := there.get(canonicalize_name(need.name))) is None
        or not need.specifier.contains(version, prereleases=True)
    ]


def requires_dist(metadata: str) -> list[str]:
    """Return the requirements that a METADATA file lists."""
    return HeaderParser().parsestr(metadata).get_all("Requires-Dist", [])
