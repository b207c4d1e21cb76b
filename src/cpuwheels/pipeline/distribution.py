"""A finished wheel under another project name, as publishers on PyPI need it: the same kernels, no local version label.

PyPI refuses versions with a local label, and the name ``vllm`` there is upstream's. The package that is imported stays
``vllm``. It asks for its own version by the name of its distribution and takes ``cpu`` in it for its platform, so these
calls are rewritten.
"""

from __future__ import annotations

import re
import zipfile
from typing import TYPE_CHECKING

from packaging.metadata import InvalidMetadata, Metadata
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name, parse_wheel_filename

from cpuwheels.audit.cache import binary_digests
from cpuwheels.core.errors import UsageError, WheelError
from cpuwheels.core.text import parse_headers
from cpuwheels.pipeline.provenance import note_or_none
from cpuwheels.wheel.canonical import canonicalize
from cpuwheels.wheel.deflate_cache import Streams
from cpuwheels.wheel.dist_info import dist_info_of
from cpuwheels.wheel.sbom.schema import FILE as SBOM
from cpuwheels.wheel.wheel_metadata import required_torch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.pipeline.provenance import WheelNote

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
"""PEP 508."""

_PLATFORMS = "vllm/platforms/__init__.py"
_ASKED = re.compile(r"""\b(version|metadata|distribution)\((["'])vllm\2\)""")


def check_name(name: str) -> None:
    """Refuse what is not a project name (PEP 508).

    Raises:
        UsageError: It is none.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a project name",
            where="--distribution",
            next_step="use letters, digits, '-', '_' and '.', with a letter or digit first and last (PEP 508)",
        )


def redistribute(wheel: Path, name: str, folder: Path) -> Path:
    """Write a finished wheel under another name and without a local label; kernels and tags stay as they are.

    Args:
        wheel: A wheel that cpuwheels built.
        name: The project name.
        folder: Where the other wheel goes; made.

    Raises:
        UsageError: The name is none.
        WheelError: The wheel is not one of cpuwheels, or its package does not ask for its version where it is expected.
    """
    check_name(name)
    note = note_or_none(wheel)
    if note is None:
        raise WheelError(
            f"{wheel.name} was not built by cpuwheels, or by another version of it", where=wheel, next_step="build it"
        )
    version = parse_wheel_filename(wheel.name)[1].public
    stem = canonicalize_name(name).replace("-", "_")
    target = folder / f"{stem}-{version}-{wheel.stem.split('-', 2)[2]}.whl"
    folder.mkdir(parents=True, exist_ok=True)
    raw = target.with_suffix(".raw")
    try:
        with zipfile.ZipFile(wheel) as archive:
            info = dist_info_of(archive.namelist())
            changed = _changed(archive, info, name, version)
            changed[f"{info}/{SBOM}"] = _sbom(changed[f"{info}/METADATA"], note, target.name, binary_digests(wheel))
            with zipfile.ZipFile(raw, "w") as other:
                for entry in archive.infolist():
                    content = changed.get(entry.filename) or archive.read(entry)
                    entry.filename = re.sub(f"^{re.escape(info)}/", f"{stem}-{version}.dist-info/", entry.filename)
                    other.writestr(entry, content, zipfile.ZIP_STORED)
        with Streams([wheel]) as streams:
            canonicalize(raw, target, epoch=note.source.epoch, streams=streams)
    finally:
        raw.unlink(missing_ok=True)
    return target


def renamed_metadata(metadata: bytes, name: str, version: str) -> bytes:
    """Return a ``METADATA`` with another name and version; no requirement without an extra has a local label.

    Raises:
        WheelError: The result is not valid, or has a URL requirement.
    """
    head, separator, description = metadata.decode().partition("\n\n")
    lines = []
    for line in head.split("\n"):
        field, colon, value = line.partition(": ")
        if field in {"Name", "Version"}:
            value = {"Name": name, "Version": version}[field]
        elif field == "Requires-Dist":
            value = _public(value)
        lines.append(f"{field}: {value}" if colon else line)
    written = "\n".join(lines) + separator + description
    try:
        Metadata.from_email(written, validate=True)
    except (ExceptionGroup, InvalidMetadata) as error:
        raise WheelError(f"the metadata are not valid: {error}", where="METADATA") from error
    return written.encode()


def _sbom(metadata: bytes, note: WheelNote, file: str, binaries: Mapping[str, str]) -> bytes:
    # Only here: it brings cyclonedx, which takes as long to import as all the rest.
    from cpuwheels.pipeline.sbom import Subject, wheel_sbom  # noqa: PLC0415

    fields = parse_headers(metadata)
    torch = required_torch(fields.get_all("Requires-Dist", []), file)
    subject = Subject(file, fields["Name"], fields["Version"], fields.get("License-Expression", ""), torch)
    return wheel_sbom(note, subject, binaries)


def _public(line: str) -> str:
    """Return a requirement without local labels; one of an extra stays as it is."""
    try:
        requirement = Requirement(line)
    except InvalidRequirement as error:
        raise WheelError(f"{line!r} is not a requirement: {error}", where="Requires-Dist") from error
    if requirement.url is not None:
        raise WheelError(f"PyPI refuses a requirement by URL: {line}", where="Requires-Dist")
    if requirement.marker is not None and "extra ==" in str(requirement.marker):
        return line
    labelled = [one for one in requirement.specifier if one.operator == "==" and "+" in one.version]
    if not labelled:
        return line
    others = [str(one) for one in requirement.specifier if one not in labelled]
    plain = [f"=={one.version.partition('+')[0]}" for one in labelled]
    requirement.specifier = SpecifierSet(",".join([*others, *plain]))
    return str(requirement)


def _changed(archive: zipfile.ZipFile, info: str, name: str, version: str) -> dict[str, bytes]:
    """Return the files that differ, by their names in the wheel."""
    changed = {f"{info}/METADATA": renamed_metadata(archive.read(f"{info}/METADATA"), name, version)}
    for entry in archive.namelist():
        if entry.endswith(".py"):
            text = archive.read(entry).decode()
            # Where the platform is chosen, 'cpu' in the version decides.
            label = ' + "+cpu"' if entry == _PLATFORMS else ""
            written = _ASKED.sub(rf'\1("{name}"){label}', text) if "importlib" in text else text
            if written != text:
                changed[entry] = written.encode()
    if _PLATFORMS not in changed:
        raise WheelError(
            "the package does not ask for its version where it chooses its platform",
            where=_PLATFORMS,
            next_step=f"see how it finds out that it is the build for CPUs, and extend {__name__}",
        )
    return changed
