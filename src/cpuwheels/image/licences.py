"""Licences of an image's packages, from the copyright files and the metadata that lie in its layers."""

from __future__ import annotations

import logging
import re
import tarfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.utils import canonicalize_name

from cpuwheels.core.text import parse_headers, printable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_COPYRIGHT = re.compile(r"usr/share/doc/([^/]+)/copyright")
_METADATA = re.compile(r".*\.dist-info/METADATA")
_CLASSIFIER = re.compile(r"License :: (?:OSI Approved :: )?(?P<name>.+)")
_LONGEST = 1 << 20
_LONGEST_NAME = 200


@dataclass
class Licences:
    """What the packages in some layers say of their licences.

    Attributes:
        debian: Package → names as its copyright file has them, which are not SPDX's; none if it is not
            `machine-readable <https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/>`_.
        expressions: Name and version of a Python package → SPDX expression.
        names: The same → names in its classifiers, if it has no expression.
    """

    debian: dict[str, tuple[str, ...]] = field(default_factory=dict)
    expressions: dict[tuple[str, str], str] = field(default_factory=dict)
    names: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)


def licences_in(layers: Iterable[Path]) -> Licences:
    """Read the licences of the packages in packed layers."""
    found = Licences()
    for layer in layers:
        with tarfile.open(layer, mode="r|*") as tar:
            for member in tar:
                copyright_of, metadata = _COPYRIGHT.fullmatch(member.name), _METADATA.fullmatch(member.name)
                if not (copyright_of or metadata) or not member.isfile() or member.size > _LONGEST:
                    continue
                stream = tar.extractfile(member)
                content = stream.read() if stream else b""
                if copyright_of:
                    found.debian[copyright_of[1]] = _of_copyright(content)
                else:
                    _add_metadata(found, content)
    return found


def _of_copyright(content: bytes) -> tuple[str, ...]:
    # Only here: it takes long to import.
    from debian.copyright import Copyright, MachineReadableFormatError, NotMachineReadableError  # noqa: PLC0415

    logging.getLogger("debian.copyright").setLevel(logging.CRITICAL)  # it warns of each file's small faults
    try:
        parsed = Copyright(content.decode("utf-8", "replace").splitlines(keepends=True), strict=False)
        licences: list[Any] = [paragraph.license for paragraph in parsed.all_files_paragraphs()]
    except (MachineReadableFormatError, NotMachineReadableError, ValueError):
        return ()
    return tuple(sorted({_name(one.synopsis) for one in licences if one and one.synopsis.strip()}))


def _add_metadata(found: Licences, content: bytes) -> None:
    headers = parse_headers(content)
    package = (canonicalize_name(str(headers["Name"])), str(headers["Version"]))
    try:
        found.expressions[package] = str(canonicalize_license_expression(str(headers["License-Expression"] or "")))
    except InvalidLicenseExpression:
        classifiers = (_CLASSIFIER.fullmatch(str(line)) for line in headers.get_all("Classifier", []))
        found.names[package] = tuple(sorted({_name(one["name"]) for one in classifiers if one}))


def _name(text: str) -> str:
    return printable(" ".join(text.split()))[:_LONGEST_NAME]
