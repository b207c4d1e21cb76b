"""A wheel as data: read without believing anything in it, and compared as a whole with what it says of itself.

Whoever gets a commit built decides on every byte of its wheel, and a publisher has credentials. So a wheel is one
bounded archive whose ``RECORD`` lists exactly its files with their digests, whose metadata belongs to its name, and
whose note has the form that this program writes.
"""

from __future__ import annotations

import csv
import io
import os
import re
import stat
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version
from pydantic import ValidationError

from cpuwheels.audit.sbom import LIBRARY, sbom_faults
from cpuwheels.audit.validate import metadata_faults, tag_faults
from cpuwheels.core.errors import CpuwheelsError, PublishError
from cpuwheels.core.limits import ArchiveLimits
from cpuwheels.core.parse import parse_json
from cpuwheels.core.text import first_lines, parse_headers
from cpuwheels.core.zip_archive import open_zip
from cpuwheels.fetch.git import FULL_HASH
from cpuwheels.fetch.vllm_wheels import PROJECT
from cpuwheels.pipeline.provenance import WheelNote
from cpuwheels.wheel.dist_info import NOTE, dist_info_of, record_digest
from cpuwheels.wheel.sbom.schema import FILE as SBOM
from cpuwheels.wheel.sbom.schema import LONGEST as SBOM_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cpuwheels.core.zip_archive import ZipReader

LIMITS = ArchiveLimits(members=50_000, size=2 << 30, member=1 << 30)
"""A wheel of vLLM 0.33.0 for CPUs has 2,500 files and 200 MiB."""

TEXT = 1 << 20
"""Bytes of ``METADATA``, ``WHEEL`` and the note; those of vLLM have 50 KiB."""

RECORD_SIZE = 8 << 20
PLAIN = re.compile(r"[A-Za-z0-9._+!-]+\.whl")
"""Names of wheels in an index."""

_TARGET = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_KEY = re.compile(r"[A-Za-z0-9._-]{0,128}")
_LONGEST_NAME = 255
_SHOWN = 20


@dataclass(frozen=True)
class WheelFile:
    """What a wheel says of itself.

    Attributes:
        metadata: Its ``METADATA``.
        version: With its local label.
        requires_python: As in the metadata; empty if that has none.
        note: What it was made from; None if somebody else built it.
    """

    metadata: bytes
    version: Version
    requires_python: str
    note: WheelNote | None


def read_wheel(wheel: Path, *, listed: bool = False) -> WheelFile:
    """Return what a wheel says of itself, after every byte of it was read.

    Args:
        wheel: The file.
        listed: Whether an index lists it already: it may then be of a version that wrote no bill of materials.

    Raises:
        PublishError: It is no file, no wheel of vLLM, or not what its name or its ``RECORD`` says.
    """
    name = wheel.name
    if not PLAIN.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise PublishError(
            f"{name!r} is not a name for a wheel in an index",
            where=wheel,
            next_step="give the wheel the name that it was built with",
        )
    try:
        project, version, _, _ = parse_wheel_filename(name)
        with _opened(wheel) as stream, open_zip(stream, limits=LIMITS, where=wheel) as archive:
            info = dist_info_of(archive.names)
            texts = {one: archive.read(f"{info}/{one}", TEXT) for one in ("METADATA", "WHEEL")}
            note = archive.read(f"{info}/{NOTE}", TEXT) if f"{info}/{NOTE}" in archive.infos else None
            faults = [*record_faults(archive, info)]
            sbom = archive.read(f"{info}/{SBOM}", SBOM_SIZE) if f"{info}/{SBOM}" in archive.infos else None
            binaries = {one: archive.digest(one).hex() for one in archive.infos if LIBRARY.fullmatch(one)}
    except (OSError, KeyError, ValueError, csv.Error, InvalidWheelFilename, CpuwheelsError) as error:
        said = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error).partition("\n")[0]
        raise PublishError(f"{name} is not a wheel: {said}", where=wheel, next_step="build it again") from error
    if project != PROJECT:
        faults.insert(0, f"it is a wheel of {project}")
    if not _is_folder_of(info, version):
        faults.append(f"its metadata is in {info}")
    try:
        faults += [*tag_faults(name, texts["WHEEL"]), *metadata_faults(name, texts["METADATA"])]
        faults += header_faults(texts["METADATA"])
    except (ValueError, InvalidVersion, CpuwheelsError) as error:
        faults.append(str(error).partition("\n")[0])
    found = None if note is None else _note(note, wheel)
    if found is not None:
        faults += note_faults(found)
        if not faults and not (listed and sbom is None):
            faults += sbom_faults(sbom, note or b"", texts["METADATA"], name, binaries)
    if faults:
        raise PublishError(
            f"{name} cannot be published: {faults[0]}",
            where=wheel,
            output="\n".join(first_lines(faults[1:], _SHOWN)),
            next_step=f"publish wheels of {PROJECT} as they were built",
        )
    requires = parse_headers(texts["METADATA"]).get("Requires-Python", "")
    return WheelFile(texts["METADATA"], version, requires, found)


def record_faults(archive: ZipReader, info: str) -> Iterator[str]:
    """Yield how ``RECORD`` differs from the files: every file is listed once, with its digest and size."""
    record = f"{info}/RECORD"
    text = archive.read(record, RECORD_SIZE).decode()
    rows: dict[str, tuple[str, ...]] = {}
    for row in csv.reader(io.StringIO(text), strict=True):
        if len(row) != 3 or row[0] in rows:  # noqa: PLR2004  (path, digest, size)
            yield f"RECORD has a row that is none: {row[:1]!r:.200}"
            return
        rows[row[0]] = (row[1], row[2])
    yield from (f"{name!r:.200} is in RECORD and not in the wheel" for name in rows if name not in archive.infos)
    for name, listed in archive.infos.items():
        if name not in rows:
            yield f"{name!r:.200} is not in RECORD"
            continue
        wanted = ("", "") if name == record else (record_digest(archive.digest(name)), str(listed.file_size))
        if rows[name] != wanted:
            yield f"{name!r:.200} does not have the digest and size that RECORD says"


def header_faults(metadata: bytes) -> Iterator[str]:
    """Yield what is wrong with ``METADATA`` as text: not UTF-8, a value twice, a Python version that is none."""
    try:
        metadata.decode()
    except UnicodeDecodeError:
        yield "METADATA is not UTF-8"
        return
    message = parse_headers(metadata)
    for header in ("Metadata-Version", "Name", "Version", "Requires-Python"):
        if len(message.get_all(header, [])) > 1:
            yield f"METADATA has {header} twice"
    try:
        SpecifierSet(message.get("Requires-Python", ""))
    except InvalidSpecifier:
        yield "METADATA has a Requires-Python that is none"


def note_faults(note: WheelNote) -> Iterator[str]:
    """Yield what a note says that would be a name or a place of something else in an index."""
    if note.source.commit is not None and not FULL_HASH.fullmatch(note.source.commit):
        yield f"its {NOTE} has the commit {note.source.commit!r:.80}, which is no full hash"
    if not _TARGET.fullmatch(note.target):
        yield f"its {NOTE} has the target {note.target!r:.80}"
    if not _KEY.fullmatch(note.kernel_key):
        yield f"its {NOTE} has a key of kernels that is none"
    if note.source.epoch < 0:
        yield f"its {NOTE} has a source from before 1970"


def _opened(wheel: Path) -> IO[bytes]:
    """Return a file, if it is one by itself and not by a link.

    Raises:
        ValueError: It is something else.
        OSError: It cannot be read.
    """
    stream = os.fdopen(os.open(wheel, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        return stream
    stream.close()
    raise ValueError("it is a folder, a device or a pipe")


def _note(content: bytes, wheel: Path) -> WheelNote:
    try:
        return WheelNote.model_validate(parse_json(content, NOTE), strict=False)
    except (CpuwheelsError, ValidationError) as error:
        raise PublishError(
            f"{wheel.name} cannot be published: its {NOTE} is of another version of cpuwheels",
            where=wheel,
            output=str(error).partition("\n")[0],
            next_step="build it again with this version",
        ) from error


def _is_folder_of(info: str, version: Version) -> bool:
    name, _, said = info.removesuffix(".dist-info").partition("-")
    try:
        return canonicalize_name(name) == PROJECT and Version(said) == version
    except InvalidVersion:
        return False
