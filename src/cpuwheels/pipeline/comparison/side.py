"""One side of a comparison: everything that can be read of a wheel and of the build record next to it."""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.digests import file_digest
from cpuwheels.core.elf import is_elf, linkable, read_elf
from cpuwheels.core.errors import UsageError, WheelError
from cpuwheels.core.macho import is_macho, read_macho
from cpuwheels.pipeline.built_wheel import RECORD
from cpuwheels.pipeline.provenance import note_or_none
from cpuwheels.pipeline.recorded_build import read_operators, read_record
from cpuwheels.wheel.wheel_metadata import read_metadata

if TYPE_CHECKING:
    from email.message import Message
    from pathlib import Path

    from cpuwheels.pipeline.provenance import WheelNote
    from cpuwheels.pipeline.recorded_build import BuildRecord, OperatorList

_INFO = re.compile(r"^[^/]+\.dist-info/")
_BUNDLED = re.compile(r"^[^/]+\.libs/(?P<stem>[^/]+?)-[0-9a-f]{8}(?P<rest>\.[^/]+)$")
"""auditwheel puts a digest into the name of a library that it brings in."""


@dataclass(frozen=True)
class Member:
    """A file of a wheel.

    Attributes:
        size: Bytes, unpacked.
        packed: Bytes in the wheel.
        digest: sha256 of its content.
    """

    size: int
    packed: int
    digest: str


@dataclass(frozen=True)
class Binary:
    """The symbols of a library or extension module.

    Attributes:
        exported: Names that others can link to.
        undefined: Names that it takes from others, with the version if they have one: ``memcpy@GLIBC_2.14``.
        needed: Libraries that it is linked to.
    """

    exported: frozenset[str]
    undefined: frozenset[str]
    needed: frozenset[str]


@dataclass(frozen=True)
class Side:
    """One of two builds.

    Attributes:
        wheel: The file.
        sha256: Of its bytes.
        size: Bytes.
        members: By their name without what differs in every wheel: version of ``.dist-info``, digests of ``.libs``.
        binaries: By the same names.
        unread: Binaries that cannot be read, with the reason.
        metadata: Headers of its ``METADATA``.
        note: What it is made from, as the wheel has it; None for a wheel of somebody else's.
        record: Its build record; None if none is next to it.
        operators: The list next to it, if it has a record.
        lacks: Why there is no record, for people; empty if there is one.
    """

    wheel: Path
    sha256: str
    size: int
    members: dict[str, Member]
    binaries: dict[str, Binary]
    unread: dict[str, str]
    metadata: Message
    note: WheelNote | None
    record: BuildRecord | None
    operators: OperatorList | None
    lacks: str


def read_side(path: Path) -> Side:
    """Read one side.

    Args:
        path: A wheel, or the folder of a build with one wheel in it.

    Raises:
        UsageError: The folder does not hold exactly one wheel.
        UnusableWheelError: It is not a wheel, or is not there.
    """
    wheel = _wheel(path)
    metadata = read_metadata(wheel)
    members, binaries, unread = _read(wheel)
    sha256 = file_digest(wheel)
    record, lacks = _record(wheel, sha256)
    return Side(
        wheel=wheel,
        sha256=sha256,
        size=wheel.stat().st_size,
        members=members,
        binaries=binaries,
        unread=unread,
        metadata=metadata,
        note=note_or_none(wheel),
        record=record,
        operators=read_operators(wheel.parent) if record else None,
        lacks=lacks,
    )


def plain_name(name: str) -> str:
    """Return the name of a wheel's file without the parts that differ in every wheel."""
    if bundled := _BUNDLED.match(name):
        return f"*.libs/{bundled['stem']}{bundled['rest']}"
    return _INFO.sub("*.dist-info/", name)


def _wheel(path: Path) -> Path:
    if not path.is_dir():
        return path
    found = sorted(path.glob("*.whl"))
    if len(found) != 1:
        raise UsageError(
            f"{path} holds {len(found)} wheels, not one",
            where="compare",
            next_step="give a wheel, or the folder of one build, such as dist/x86/0.32.0",
        )
    return found[0]


def _record(wheel: Path, sha256: str) -> tuple[BuildRecord | None, str]:
    if not wheel.with_name(RECORD).is_file():
        return None, f"no {RECORD} is next to {wheel.name}"
    try:
        record = read_record(wheel.parent)
    except WheelError as error:
        return None, error.what
    if record.wheel.sha256 != sha256:
        return None, f"the {RECORD} next to {wheel.name} is another wheel's"
    return record, ""


def _read(wheel: Path) -> tuple[dict[str, Member], dict[str, Binary], dict[str, str]]:
    members: dict[str, Member] = {}
    binaries: dict[str, Binary] = {}
    unread: dict[str, str] = {}
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            name = plain_name(info.filename)
            if info.is_dir() or name == "*.dist-info/RECORD":  # which lists the others
                continue
            content = archive.read(info)
            members[name] = Member(info.file_size, info.compress_size, hashlib.sha256(content).hexdigest())
            try:
                if binary := _binary(content):
                    binaries[name] = binary
            except ValueError as error:
                unread[name] = str(error)
    return members, binaries, unread


def _binary(content: bytes) -> Binary | None:
    stream = io.BytesIO(content)
    if is_elf(stream):
        facts = read_elf(stream)
        carried = {f"{symbol}@{need.version}" for need in facts.versions for symbol in need.symbols}
        return Binary(linkable(stream), frozenset(carried.union(facts.loose)), frozenset(facts.needed))
    if is_macho(content):
        macho = read_macho(content)
        return Binary(macho.exports, frozenset(one.name for one in macho.imports), frozenset(macho.needed))
    return None
