"""The bill of materials of an image: its Debian and Python packages, and the wheel with a link to the wheel's own.

It lies next to the image, so it can name the image by the digest of its manifest.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.component import ComponentType
from packageurl import PackageURL

from cpuwheels.config.package_urls import debian, pypi
from cpuwheels.image.licences import licences_in
from cpuwheels.wheel.sbom.document import Document
from cpuwheels.wheel.sbom.parts import component

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cyclonedx.model.component import Component

    from cpuwheels.image.contents import Contents, Locked, Wheel
    from cpuwheels.image.licences import Licences
    from cpuwheels.image.oci import Image

_LICENCES, _VERSION = "org.opencontainers.image.licenses", "org.opencontainers.image.version"
_DESCRIBED = ("fallback", "target", "without")
"""Labels of ours that say what the packages do not."""


def image_sbom(name: str, image: Image, contents: Contents) -> bytes:
    """Return the bill of materials of an image.

    Args:
        name: Of its repository.
        image: The image.
        contents: What it is composed of.
    """
    digest, licences = hashlib.sha256(image.manifest()).hexdigest(), licences_in(one.path for one in image.layers)
    labels = image.settings.labels
    return Document(
        subject=component(
            name,
            labels.get(_VERSION),
            kind=ComponentType.CONTAINER,
            purl=PackageURL("oci", None, name, f"sha256:{digest}", {"arch": image.platform["architecture"]}),
            digest=digest,
            properties=_described(labels),
        ),
        epoch=image.epoch,
        components=[
            *(
                component(
                    one.name,
                    one.version,
                    purl=debian(one.path.rpartition("/")[2], one.version),
                    digest=one.sha256,
                    licences=licences.debian.get(one.name, ()),
                )
                for one in contents.debian
            ),
            *(part for lock in contents.python for part in _locked(lock, licences)),
            *([_package("torch", contents.torch, licences)] if contents.torch else []),
            _wheel(contents.wheel, labels.get(_LICENCES, "")),
        ],
    ).render()


def _described(labels: Mapping[str, str]) -> dict[str, str]:
    return {name: labels.get(f"cpuwheels.{name}", "") for name in _DESCRIBED}


def _locked(lock: Locked, licences: Licences) -> list[Component]:
    file = component(lock.file, kind=ComponentType.FILE, digest=lock.sha256)
    return [file, *(_package(name, version, licences) for name, version in lock.packages)]


def _package(name: str, version: str, licences: Licences) -> Component:
    return component(
        name,
        version,
        purl=pypi(name, version),
        expression=licences.expressions.get((name, version), ""),
        licences=licences.names.get((name, version), ()),
    )


def _wheel(wheel: Wheel, expression: str) -> Component:
    found = component(
        "vllm", wheel.version, purl=pypi("vllm", wheel.version, wheel.file), digest=wheel.sha256, expression=expression
    )
    if wheel.sbom:
        hashes = [HashType(alg=HashAlgorithm.SHA_256, content=wheel.sbom_sha256)]
        link = ExternalReference(type=ExternalReferenceType.BOM, url=XsUri(wheel.sbom), hashes=hashes)
        found.external_references.add(link)
    return found
