"""The audited binaries of a wheel, kept in the store: the audit reads no other file.

A wheel's ELF files are taken out into a small wheel of their own, which is audited and repaired, and kept with
what was found. The key names everything that the audit reads and every program that takes part in it. The next
wheel with the same binaries takes them from there, compressed as they are.
"""

from __future__ import annotations

import csv
import io
import stat
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from cpuwheels.audit.policy import Audited, AuditPolicy
from cpuwheels.core.digests import make_key
from cpuwheels.core.elf import MAGIC
from cpuwheels.core.errors import AuditError
from cpuwheels.core.macho import is_macho
from cpuwheels.wheel.canonical import canonicalize
from cpuwheels.wheel.deflate_cache import Streams, latest_entry, name_compressor
from cpuwheels.wheel.dist_info import content_digest, dist_info_of, hex_digest, render_record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cpuwheels.core.store import Store

KIND = "audited"

_FACTS = "audit.json"

_PLAIN = 0o100644 << 16
_AUDITED = TypeAdapter(Audited)


def audited_binaries(wheel: Path, policy: AuditPolicy, *, store: Store, work: Path, log: Path) -> tuple[str, Audited]:
    """Return the audited binaries of a wheel: a canonical wheel with them alone, from the store or made now.

    Args:
        wheel: A wheel with a plain ``linux_…`` tag.
        policy: What they are audited against.
        store: Where audited binaries are kept.
        work: For the steps between.
        log: Log file of the step.

    Returns:
        The key they are kept under, and the audit's result, whose wheel holds the binaries alone.

    Raises:
        AuditError: See `cpuwheels.audit.linux.audit_wheel` and `cpuwheels.audit.macos.audit_macos_wheel`.
    """
    distribution, _, tags = _parts(wheel)
    taken = _binaries(wheel)
    key = make_key(
        policy=policy.key(),
        distribution=distribution,
        tags=tags,
        files={name: [content_digest(content), mode] for name, (content, mode) in taken.items()},
    )

    def make(folder: Path) -> None:
        alone = work / _name_alone(wheel)
        _write_alone(alone, distribution, taken)

        def pack(audited: Path) -> None:
            with Streams(before) as streams:
                canonicalize(audited, folder / audited.name, epoch=0, streams=streams)

        audited = _audit(alone, work / "audited", policy, log, store if policy.library_folders else None, pack)
        name_compressor(folder)
        named = replace(audited, path=Path(audited.path.name))  # where it was made differs from machine to machine
        (folder / _FACTS).write_bytes(_AUDITED.dump_json(named, indent=1))

    before: list[Path] = []
    if policy.library_folders:
        if not store.has(KIND, key) and (latest := latest_entry(store, KIND)):
            before += latest.glob("*.whl")
        folder = store.get(KIND, key, make)
    else:  # the host's own libraries take part, which no key names
        folder = work / "alone"
        folder.mkdir(parents=True)
        make(folder)
    return key, _found(folder)


def binaries_alone(wheel: Path, folder: Path) -> Path:
    """Return a canonical wheel in a folder with the binaries of a finished one alone, as an audit leaves them.

    Args:
        wheel: In canonical form; what it compressed is copied.
        folder: Where the other one goes; made.
    """
    folder.mkdir(parents=True)
    alone = folder / _name_alone(wheel)
    _write_alone(alone, _parts(wheel)[0], _binaries(wheel))
    with Streams([wheel]) as streams:
        canonicalize(alone, alone, epoch=0, streams=streams)
    return alone


def binary_digests(wheel: Path) -> dict[str, str]:
    """Return the path of each binary of a wheel with its SHA-256, as ``RECORD`` has it.

    Raises:
        WheelError: It is not a wheel.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        rows = csv.reader(io.StringIO(archive.read(f"{dist_info_of(names)}/RECORD").decode()))
        digests = {row[0]: hex_digest(row[1]) for row in rows if row}
        return {name: digests[name] for name in names if name in digests and _is_binary(archive, name)}


def damaged_binaries(wheel: Path) -> list[str]:
    """Return the binaries of a wheel that differ from its ``RECORD``.

    Raises:
        WheelError: It is not a wheel.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        rows = csv.reader(io.StringIO(archive.read(f"{dist_info_of(names)}/RECORD").decode()))
        digests = {row[0]: row[1] for row in rows if row}
        return [
            name
            for name in names
            if _is_binary(archive, name) and digests.get(name) != content_digest(archive.read(name))
        ]


def _binaries(wheel: Path) -> dict[str, tuple[bytes, int]]:
    """Return content and attributes of a wheel's binaries and ``WHEEL``, by their names in a wheel of version 0."""
    distribution = _parts(wheel)[0]
    with zipfile.ZipFile(wheel) as archive:
        names = [info.filename for info in archive.infolist() if not info.is_dir()]
        own = f"{dist_info_of(names)}/WHEEL"
        return {
            _renamed(name, own, distribution): (archive.read(name), _plain(archive.getinfo(name).external_attr))
            for name in names
            if name == own or _is_binary(archive, name)
        }


def _audit(
    wheel: Path, out: Path, policy: AuditPolicy, log: Path, store: Store | None, pack: Callable[[Path], None]
) -> Audited:
    """Return the result of an audit, and pack its wheel."""
    # Only here: what reads machine code takes longer to import than a build that has nothing to do needs for the rest.
    if policy.system == "Darwin":
        from cpuwheels.audit.macos import audit_macos_wheel  # noqa: PLC0415

        audited = audit_macos_wheel(wheel, out, policy, log, store)
        pack(audited.path)
        return audited
    from cpuwheels.audit.linux import audit_wheel  # noqa: PLC0415

    return audit_wheel(wheel, out, policy, log, store, meanwhile=pack)


def _write_alone(wheel: Path, distribution: str, files: Mapping[str, tuple[bytes, int]]) -> None:
    """Write the wheel that auditwheel reads: the files with their attributes, and the little else that it needs."""
    dist_info = f"{distribution}-0.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 0\n".encode()
    members = {**files, f"{dist_info}/METADATA": (metadata, 0)}
    rows = [(name, content_digest(content), str(len(content))) for name, (content, _) in members.items()]
    record = render_record([*rows, (f"{dist_info}/RECORD", "", "")])
    wheel.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, (content, attributes) in (members | {f"{dist_info}/RECORD": (record, 0)}).items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = attributes or _PLAIN
            archive.writestr(entry, content)


def _found(folder: Path) -> Audited:
    facts = _AUDITED.validate_json((folder / _FACTS).read_bytes())
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise AuditError(f"{len(wheels)} wheels of audited binaries, expected one", where=folder, next_step="remove it")
    return replace(facts, path=wheels[0])


def _is_binary(archive: zipfile.ZipFile, name: str) -> bool:
    with archive.open(name) as stream:
        start = stream.read(len(MAGIC))
        return start == MAGIC or is_macho(start)


def _plain(attributes: int) -> int:
    """Return the attributes of a file that is executable, or not; the wheel's other attributes are left out."""
    return (stat.S_IFREG | (0o755 if attributes >> 16 & 0o111 else 0o644)) << 16


def _name_alone(wheel: Path) -> str:
    distribution, _, tags = _parts(wheel)
    return f"{distribution}-0-{tags}.whl"


def _parts(wheel: Path) -> tuple[str, str, str]:
    """Return a wheel's distribution, version and tags, from its file name."""
    distribution, version, tags = wheel.stem.split("-", 2)
    return distribution, version, tags


def audited_name(wheel: Path, audited: Audited) -> str:
    """Return the file name of a wheel with the tags that the audit of its binaries found."""
    distribution, version, _ = _parts(wheel)
    return f"{distribution}-{version}-{_parts(audited.path)[2]}.whl"


def _renamed(name: str, own: str, distribution: str) -> str:
    return f"{distribution}-0.dist-info/WHEEL" if name == own else name
