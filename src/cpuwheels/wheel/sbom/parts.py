"""Parts of a bill of materials: packages and files, named by package URLs and paths, with digests and licences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyclonedx.model import HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.component import Component, ComponentType, Diff, Patch, PatchClassification
from cyclonedx.model.issue import IssueClassification, IssueType
from cyclonedx.model.license import DisjunctiveLicense, LicenseExpression

from cpuwheels.core.digests import SHA256

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cyclonedx.model.component import Pedigree
    from packageurl import PackageURL


PREFIX = "cpuwheels"
"""Of the names of properties that are this project's own."""


def component(
    name: str,
    version: str | None = None,
    *,
    kind: ComponentType = ComponentType.LIBRARY,
    purl: PackageURL | None = None,
    digest: str = "",
    expression: str = "",
    licences: Iterable[str] = (),
    parts: Iterable[Component] = (),
    pedigree: Pedigree | None = None,
    properties: Mapping[str, str] | None = None,
    external: bool | None = None,
    within: str = "",
) -> Component:
    """Return a component; its reference is its package URL, or else its kind and name.

    Args:
        name: As its project names it, or a path.
        version: If it has one.
        kind: What it is.
        purl: Names it for other programs.
        digest: SHA-256 of what the package URL or the path names; another digest is no hash of a file, and left out.
        expression: Its licence (SPDX).
        licences: Names of licences of its parts, where no expression says how they go together.
        parts: Files that it consists of.
        pedigree: What it is derived from.
        properties: What else is known, by names without our prefix; empty values are left out.
        external: Whether it is expected to be there and not part of what is described.
        within: Put before its reference, for what is in a document more than once.
    """
    known = {key: value for key, value in (properties or {}).items() if value}
    named = str(purl) if purl else f"{kind.value}:{name}"
    return Component(
        name=name,
        version=version or None,
        type=kind,
        bom_ref=f"{within}:{named}" if within else named,
        purl=purl,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)] if SHA256.fullmatch(digest) else [],
        licenses=[LicenseExpression(expression)] if expression else map(_named, licences),
        components=parts,
        pedigree=pedigree,
        properties=[Property(name=f"{PREFIX}:{key}", value=value) for key, value in known.items()],
        is_external=external,
    )


def _named(licence: str) -> DisjunctiveLicense:
    return DisjunctiveLicense(name=licence)


def reference(of: Component) -> str:
    """Return the reference of a component."""
    return str(of.bom_ref.value)


def file(path: str, digest: str) -> Component:
    """Return a file by its path and its SHA-256."""
    return component(path, kind=ComponentType.FILE, digest=digest)


def patch(name: str, digest: str, fixes: Iterable[str]) -> Patch:
    """Return one of our patches.

    Args:
        name: Its file in this project's ``patches/``.
        digest: SHA-256 of the file; the URL has it as its fragment, since a patch has no hashes.
        fixes: Faults that it fixes.
    """
    return Patch(
        type=PatchClassification.UNOFFICIAL,
        diff=Diff(url=XsUri(f"patches/{name}#sha256={digest}")),
        resolves=[IssueType(type=IssueClassification.DEFECT, name=fault) for fault in fixes],
    )
