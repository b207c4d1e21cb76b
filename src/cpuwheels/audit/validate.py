"""Everything wrong with a finished wheel, as a list; an empty list means it may be published."""

from __future__ import annotations

import csv
import fnmatch
import io
import re
import zipfile
from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from cpuwheels.audit.installed_names import name_faults, program_faults
from cpuwheels.audit.licences import licence_faults
from cpuwheels.audit.sbom import sbom_faults
from cpuwheels.core.elf import MAGIC, ElfFacts, read_elf
from cpuwheels.core.macho import is_macho
from cpuwheels.core.text import parse_headers
from cpuwheels.wheel.canonical import entry_order
from cpuwheels.wheel.dist_info import NOTE, content_digest, dist_info_of, hex_digest
from cpuwheels.wheel.requirements import sort_requirements
from cpuwheels.wheel.sbom.schema import FILE as SBOM

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from cpuwheels.config.platform_policy import Policy


_FACTS: OrderedDict[str, ElfFacts] = OrderedDict()
"""Facts of the latest binaries of this process, by digest: the wheels of a bisection share most of them."""

_MOST_FACTS = 32


@dataclass(frozen=True)
class Expectations:
    """What a finished wheel is checked against.

    Attributes:
        policy: The target's platform policy; None if the target has no ELF files.
        excluded: Sonames (wildcards allowed) that come with torch.
        modules: Paths that must be there, such as ``vllm/_C.abi3.so``.
        forbidden_paths: Absolute path prefixes of the building machine that no binary may hold.
    """

    policy: Policy | None
    excluded: tuple[str, ...]
    modules: tuple[str, ...]
    forbidden_paths: tuple[str, ...]


@dataclass(frozen=True)
class Entry:
    """What was read of one archive member.

    Attributes:
        digest: As ``RECORD`` writes it.
        size: Bytes, unpacked.
        elf: Facts, if it is an ELF file.
        paths: Forbidden path prefixes found inside, if it is an ELF or a Mach-O file.
        fault: Why it could not be read, or empty.
    """

    digest: str
    size: int
    elf: ElfFacts | None = None
    paths: tuple[str, ...] = ()
    fault: str = ""
    is_code: bool = False
    """Whether it is an ELF or a Mach-O file."""

    @property
    def is_binary(self) -> bool:
        """Whether it is checked as a binary."""
        return bool(self.elf or self.fault or self.paths)


def validate_wheel(wheel: Path, expected: Expectations) -> list[str]:
    """Return everything wrong with a wheel, one line each."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            infos = archive.infolist()
            files = {info.filename: info for info in infos if not info.is_dir()}
            dist_info = dist_info_of(files)
            entries = {name: _read(archive, info, expected.forbidden_paths) for name, info in files.items()}
            code = [name for name, entry in entries.items() if entry.is_code]
            unlicensed = list(licence_faults(archive, code))
            sbom = archive.read(f"{dist_info}/{SBOM}") if f"{dist_info}/{SBOM}" in files else None
            text = {
                name: archive.read(f"{dist_info}/{name}") if f"{dist_info}/{name}" in files else b""
                for name in ("WHEEL", "METADATA", "RECORD", "entry_points.txt", NOTE)
            }
    except (zipfile.BadZipFile, OSError) as error:
        return [f"cannot be read: {error}"]
    packages = frozenset({wheel.name.partition("-")[0], *(name.partition("/")[0] for name in expected.modules)})
    return [
        *archive_faults(infos, dist_info),
        *name_faults(files, packages, dist_info),
        *program_faults(text["entry_points.txt"].decode(errors="replace"), packages),
        *tag_faults(wheel.name, text["WHEEL"]),
        *metadata_faults(wheel.name, text["METADATA"]),
        *record_faults(text["RECORD"].decode(), entries, f"{dist_info}/RECORD"),
        *(f"{name} is missing" for name in expected.modules if name not in files),
        *unlicensed,
        *(_sbom_faults(sbom, text, wheel.name, {name: entries[name].digest for name in code}) if text[NOTE] else ()),
        *binary_faults({name: entry for name, entry in entries.items() if entry.is_binary}, expected),
    ]


def _sbom_faults(
    sbom: bytes | None, text: Mapping[str, bytes], wheel: str, recorded: Mapping[str, str]
) -> Iterator[str]:
    binaries = {name: hex_digest(digest) for name, digest in recorded.items()}
    return sbom_faults(sbom, text[NOTE], text["METADATA"], wheel, binaries)


def archive_faults(infos: Sequence[zipfile.ZipInfo], dist_info: str) -> Iterator[str]:
    """Yield what is wrong with the archive itself: order, times, permissions, stray entries."""
    names = [info.filename for info in infos]
    yield from (f"{name} is a directory entry" for name in names if name.endswith("/"))
    yield from (f"{name} is there twice" for name, count in sorted(Counter(names).items()) if count > 1)
    yield from (f"{name} has an unsafe path" for name in names if name.startswith("/") or ".." in name.split("/"))
    if names != sorted(names, key=lambda name: entry_order(name, dist_info)):
        yield "entries are not sorted with .dist-info and RECORD last"
    times = {info.date_time for info in infos}
    if len(times) > 1:
        yield f"entries have {len(times)} different times"
    for info in infos:
        mode = info.external_attr >> 16
        if mode not in {0o100644, 0o100755} and not info.is_dir():
            yield f"{info.filename} has mode {mode:o}"


def tag_faults(file_name: str, wheel: bytes) -> Iterator[str]:
    """Yield what is wrong with the ``WHEEL`` file and the tags in the file name."""
    try:
        tags = {str(tag) for tag in parse_wheel_filename(file_name)[3]}
    except InvalidWheelFilename as error:
        yield f"file name: {error}"
        return
    message = parse_headers(wheel)
    inside = set(message.get_all("Tag", []))
    yield from (f"tag {tag} is in the file name and not in WHEEL" for tag in sorted(tags - inside))
    yield from (f"tag {tag} is in WHEEL and not in the file name" for tag in sorted(inside - tags))
    if message.get("Root-Is-Purelib", "").lower() != "false":
        yield "WHEEL says Root-Is-Purelib for a wheel with binaries"


def metadata_faults(file_name: str, metadata: bytes) -> Iterator[str]:
    """Yield what is wrong with ``METADATA``: other name or version than the file's, URL requirements."""
    message = parse_headers(metadata)
    name, version, _, _ = parse_wheel_filename(file_name)
    if canonicalize_name(message.get("Name", "")) != name:
        yield f"METADATA names {message.get('Name')}, the file {name}"
    if Version(message.get("Version", "0")) != version:
        yield f"METADATA says version {message.get('Version')}, the file name {version}"
    lines = message.get_all("Requires-Dist", [])
    for move in sort_requirements(lines, ()).moved:
        yield f"Requires-Dist has a URL, which an index refuses: {move.original}"


def record_faults(record: str, entries: dict[str, Entry], record_name: str) -> Iterator[str]:
    """Yield what is wrong with ``RECORD``: rows missing, superfluous, unsorted, or with another digest."""
    rows = {row[0]: tuple(row[1:]) for row in csv.reader(io.StringIO(record)) if row}
    yield from (f"{name} is not in RECORD" for name in sorted(entries.keys() - rows.keys()))
    yield from (f"{name} is in RECORD only" for name in sorted(rows.keys() - entries.keys()))
    listed = [name for name in rows if name != record_name]
    if listed != sorted(listed):
        yield "RECORD is not sorted"
    for name in listed:
        entry = entries.get(name)
        if entry is not None and rows[name] != (entry.digest, str(entry.size)):
            yield f"{name} does not have the digest and size that RECORD says"


def binary_faults(binaries: dict[str, Entry], expected: Expectations) -> Iterator[str]:
    """Yield what is wrong with the binaries."""
    bundled = {name.rpartition("/")[2] for name in binaries}
    for name, entry in sorted(binaries.items()):
        if entry.fault:
            yield f"{name} is {entry.fault}"
            continue
        if entry.elf is not None:
            yield from (f"{name}: {fault}" for fault in elf_faults(entry.elf, expected, bundled))
        yield from (f"{name} holds the building machine's path {path}" for path in entry.paths)


def elf_faults(elf: ElfFacts, expected: Expectations, bundled: set[str]) -> Iterator[str]:
    """Yield what is wrong with one ELF file, given the file names of all of the wheel's."""
    if (policy := expected.policy) is None:
        yield "is a file for Linux"
        return
    for soname in elf.needed:
        known = policy.has(soname) or soname in bundled
        if not known and not any(fnmatch.fnmatchcase(soname, pattern) for pattern in expected.excluded):
            yield f"needs {soname}, which is neither bundled nor on every {policy.name} system"
    for needed in elf.versions:
        if policy.forbids(needed.version):
            yield f"needs {needed.version} of {needed.library}, newer than {policy.name}"
    if elf.unstripped:
        yield f"is not stripped: it has {elf.unstripped[0]}"
    if elf.executable_stack:
        yield "asks for an executable stack"
    for entry in elf.search_path:
        if not re.match(r"\$(ORIGIN|\{ORIGIN\})(/|$)", entry):
            yield f"has search path {entry!r}, not relative to $ORIGIN"


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, forbidden: Sequence[str]) -> Entry:
    content = archive.read(info)
    if content.startswith(MAGIC):
        return _read_binary(content, forbidden)
    if is_macho(content):
        return Entry(content_digest(content), len(content), paths=_held(content, forbidden), is_code=True)
    return Entry(content_digest(content), len(content))


def _read_binary(content: bytes, forbidden: Sequence[str]) -> Entry:
    digest = content_digest(content)
    paths = _held(content, forbidden)
    if digest not in _FACTS:
        try:
            facts = read_elf(io.BytesIO(content))
        except ValueError as error:
            return Entry(digest, len(content), None, paths, str(error), is_code=True)
        _FACTS[digest] = facts
        if len(_FACTS) > _MOST_FACTS:
            _FACTS.popitem(last=False)
    _FACTS.move_to_end(digest)
    return Entry(digest, len(content), _FACTS[digest], paths, is_code=True)


def _held(content: bytes, forbidden: Sequence[str]) -> tuple[str, ...]:
    return tuple(path for path in forbidden if path.encode() in content)
