"""What an index says of one wheel, read from the wheel and the files next to it."""

from __future__ import annotations

import hashlib
import re
import zipfile
from datetime import UTC, datetime
from email.parser import BytesParser
from typing import TYPE_CHECKING, Literal

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from pydantic import Field

from cpuwheels.audit.validate import metadata_faults, tag_faults
from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import PublishError
from cpuwheels.core.models import Strict
from cpuwheels.fetch.git import FULL_HASH
from cpuwheels.fetch.vllm_wheels import PROJECT
from cpuwheels.pipeline.provenance import read_note
from cpuwheels.wheel.dist_info import dist_info_of

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.pipeline.provenance import WheelNote

VARIANT = "cpu"
"""Name of the wheels' device in URLs and in ``metadata.json``, as https://wheels.vllm.ai has it."""

TestResult = Literal["passed", "failed", "not run"]
"""The result of a test of the wheel as a whole."""


class Speed(Strict):
    """How fast a wheel's kernels are, compared with those of the wheel before it."""

    against: str
    """File name of the other wheel."""
    ratio: float | None = None
    """How many times as fast, in the geometric mean of all operators; None if both have the same kernels."""
    slower: tuple[str, ...] = ()
    """Operators whose slowdown is certain."""


class Lock(Strict):
    """The lock that is published next to a wheel (PEP 751)."""

    sha256: str
    by_url: bool = False
    """Whether it names the wheel by its URL; otherwise by its path next to the lock."""


_PLAIN = re.compile(r"[A-Za-z0-9._+!-]+\.whl")


class Entry(Strict):
    """One published wheel."""

    filename: str
    sha256: str
    size: int
    """Bytes."""
    metadata_sha256: str
    """Of its ``METADATA``, which is served next to it (PEP 658)."""
    requires_python: str
    version: str
    """With its local label."""
    target: str
    commit: str | None = None
    """Full hash of the source, if that is known."""
    kernels: str = ""
    """Key of its kernels."""
    made: str
    """The age of its source: ISO 8601, UTC."""
    uploaded: str
    """When it was published: likewise (PEP 700)."""
    parity: TestResult = "not run"
    """Whether its kernels compute what they should."""
    served: TestResult = "not run"
    """Whether a server with it answers as transformers does."""
    speed: Speed | None = None
    """None if it was not measured."""
    lock: Lock | None = None
    """None if none is published."""
    beside: tuple[str, ...] = Field(default=())
    """Names of the reports that are served next to it."""


def read_entry(
    wheel: Path, *, commit: str | None = None, target: str | None = None, now: datetime | None = None
) -> tuple[Entry, bytes]:
    """Return what an index says of a wheel, and its ``METADATA``.

    Args:
        wheel: The file.
        commit: Of its source, if the wheel does not contain it.
        target: Target id, if the wheel does not contain it.
        now: When it is published.

    Raises:
        PublishError: It does not exist, or is not a wheel of vLLM that is what its name says.
    """
    if not wheel.exists():
        raise PublishError(f"{wheel} does not exist", where=wheel, next_step="give the path of a wheel that was built")
    if not _PLAIN.fullmatch(wheel.name):
        raise PublishError(
            f"{wheel.name!r} is not a name for a wheel in an index",
            where=wheel,
            next_step="give the wheel the name that it was built with",
        )
    try:
        project, version, _, _ = parse_wheel_filename(wheel.name)
        with zipfile.ZipFile(wheel) as archive:
            info = dist_info_of(archive.namelist())
            metadata, tags = (archive.read(f"{info}/{name}") for name in ("METADATA", "WHEEL"))
        digest = file_digest(wheel)
        size = wheel.stat().st_size
    except (OSError, KeyError, ValueError, zipfile.BadZipFile, InvalidWheelFilename) as error:
        raise PublishError(f"{wheel.name} is not a wheel: {error}", where=wheel, next_step="build it again") from error
    try:
        note = read_note(wheel)
    except ValueError as error:
        raise PublishError(
            f"{wheel.name} cannot be published: {error}", where=wheel, next_step="build it again with this version"
        ) from error
    faults = [*tag_faults(wheel.name, tags), *metadata_faults(wheel.name, metadata)]
    if project != PROJECT:
        faults.insert(0, f"it is a wheel of {project}")
    if faults:
        raise PublishError(
            f"{wheel.name} cannot be published: {faults[0]}",
            where=wheel,
            output="\n".join(faults[1:]),
            next_step=f"publish wheels of {PROJECT} as they were built",
        )
    published = now or datetime.now(UTC)
    return Entry(
        filename=wheel.name,
        sha256=digest,
        size=size,
        metadata_sha256=_digest(metadata),
        requires_python=BytesParser().parsebytes(metadata, headersonly=True).get("Requires-Python", ""),
        version=str(version),
        target=_target(note, target, wheel),
        commit=_commit(note, commit, wheel, needed=version.is_devrelease),
        kernels=note.kernel_key if note else "",
        uploaded=stamp(published),
        made=stamp(datetime.fromtimestamp(note.source.epoch, UTC) if note else published),
    ), metadata


def stamp(moment: datetime) -> str:
    """Return a moment as an index writes it (PEP 700: ISO 8601, UTC, ends in ``Z``)."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _target(note: WheelNote | None, given: str | None, wheel: Path) -> str:
    said = note and note.target
    if said and given and said != given:
        raise PublishError(
            f"{wheel.name} was built for target {said}, not {given}", where="--target", next_step="leave it out"
        )
    if target := said or given:
        return str(target)
    raise PublishError(
        f"{wheel.name} does not say which target it was built for",
        where=wheel,
        next_step="name the target with --target",
    )


def _commit(note: WheelNote | None, given: str | None, wheel: Path, *, needed: bool) -> str | None:
    said = note and note.source.commit
    if given is not None and not FULL_HASH.fullmatch(given):
        raise PublishError(f"{given!r} is not a full hash", where="--commit", next_step="give all 40 digits")
    if said and given and said != given:
        raise PublishError(
            f"{wheel.name} was built from commit {said}, not {given}", where="--commit", next_step="leave it out"
        )
    if needed and not (said or given):
        raise PublishError(
            f"{wheel.name} does not say which commit it was built from", where=wheel, next_step="name it with --commit"
        )
    return said or given
