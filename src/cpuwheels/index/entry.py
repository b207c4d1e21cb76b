"""What an index says of one wheel, read from the wheel and the files next to it."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

from packaging.version import Version
from pydantic import AfterValidator, Field, StringConstraints

from cpuwheels.audit.policy import untried_lines
from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import PublishError, UnusableWheelError
from cpuwheels.core.models import Commit, Moment, Sha256, Strict
from cpuwheels.core.text import printable
from cpuwheels.fetch.git import FULL_HASH
from cpuwheels.index.agreement import Agreement  # noqa: TC001  (pydantic reads the annotations)
from cpuwheels.index.wheel_file import PLAIN, read_wheel
from cpuwheels.verification.verified import AxisName  # noqa: TC001  (pydantic reads the annotations)

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.pipeline.provenance import WheelNote

VARIANT = "cpu"
"""Name of the wheels' device in URLs and in ``metadata.json``, as https://wheels.vllm.ai has it."""

TestResult = Literal["passed", "failed", "not run"]
"""The result of a test of the wheel as a whole."""


ParityResult = Literal["passed", "passed in part", "failed", "not run"]
"""In part: what was tried is right, but not all of the wheel was tried, or its kernels have known faults."""

Line = Annotated[str, StringConstraints(max_length=400)]

_SUBJECT = 200
"""Characters of a commit's subject."""


class Speed(Strict):
    """How fast a wheel's kernels are, compared with those of the wheel before it."""

    against: WheelName
    """File name of the other wheel."""
    ratio: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """How many times as fast, in the geometric mean of all operators; None if both have the same kernels."""
    slower: tuple[str, ...] = ()
    """Operators whose slowdown is certain."""


class Lock(Strict):
    """The lock that is published next to a wheel (PEP 751)."""

    sha256: Sha256
    by_url: bool = False
    """Whether it names the wheel by its URL; otherwise by its path next to the lock."""


class Signed(Strict):
    """The provenance that is published next to a wheel."""

    statement: Sha256 | None = None
    """Digest of the unsigned statement's file; None if none is published."""
    envelope: Sha256 | None = None
    """Likewise of the statement signed with a key (DSSE)."""
    provenance: Sha256 | None = None
    """Likewise of the attestations of an identity (PEP 740)."""
    by: tuple[Line, ...] = Field(default=(), max_length=16)
    """Who signed, as it was verified when the wheel was published."""
    url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s\"<>]+$", max_length=1024)] | None = None
    """Address of the attestations; None if the index's own was not known."""


class Reproduced(Strict):
    """What came of a second build in other circumstances."""

    state: Literal["reproduced", "differs"]
    """Whether it gave the same bytes."""
    moment: Moment
    """When it was done."""
    varied: tuple[AxisName, ...] = Field(max_length=100)
    """What was different."""
    not_varied: tuple[AxisName, ...] = Field(default=(), max_length=100)
    """What was to be different, and could not be there."""


VersionText = Annotated[str, StringConstraints(max_length=128), AfterValidator(lambda text: str(Version(text)))]
"""PEP 440; releases have a folder of this name."""

Target = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=64)]
WheelName = Annotated[str, StringConstraints(pattern=rf"^{PLAIN.pattern}$", max_length=255)]
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$", max_length=255)]


class Entry(Strict):
    """One published wheel."""

    filename: WheelName
    sha256: Sha256
    size: int = Field(ge=0)
    """Bytes."""
    metadata_sha256: Sha256
    """Of its ``METADATA``, which is served next to it (PEP 658)."""
    requires_python: str
    version: VersionText
    """With its local label."""
    target: Target
    commit: Commit | None = None
    """Full hash of the source, if that is known."""
    subject: Line = ""
    """First line of the commit's message; empty if it is not known. Whoever made the commit wrote it."""
    kernels: str = ""
    """Key of its kernels."""
    fixed_faults: int | None = Field(default=None, ge=0)
    """How many faults of upstream's kernels its own do not have; None if the wheel does not say."""
    made: Moment
    """The age of its source: ISO 8601, UTC."""
    uploaded: Moment
    """When it was published: likewise (PEP 700)."""
    parity: ParityResult = "not run"
    """Whether its kernels compute what they should."""
    tried: Line = ""
    """What that was found with: the level, the cases, the libraries and the CPU."""
    gaps: tuple[Line, ...] = Field(default=(), max_length=100)
    """What was not tried, and the known faults that the kernels have; without parity what the wheel itself says."""
    served: TestResult = "not run"
    """Whether a server with it answers as transformers does."""
    speed: Speed | None = None
    """None if it was not measured."""
    reproduced: Reproduced | None = None
    """None if no second build was made yet."""
    rebuilds: Agreement | None = None
    """What rebuilders got; None if none was asked yet."""
    sandbox: Annotated[str, StringConstraints(pattern=r"^[A-Za-z ,-]*$", max_length=80)] = ""
    """What confined upstream's code, as the build record has it; empty if no record says it."""
    locked: bool | None = None
    """Whether nothing was fetched for it that is not listed with its digest; None if no record says it."""
    lock: Lock | None = None
    """None if none is published."""
    signed: Signed | None = None
    """Likewise."""
    beside: tuple[FileName, ...] = Field(default=())
    """Names of the reports that are served next to it."""


def read_entry(
    wheel: Path,
    *,
    commit: str | None = None,
    target: str | None = None,
    now: datetime | None = None,
    listed: bool = False,
) -> tuple[Entry, bytes]:
    """Return what an index says of a wheel, and its ``METADATA``.

    Args:
        wheel: The file.
        commit: Of its source, if the wheel does not contain it.
        target: Target id, if the wheel does not contain it.
        now: When it is published.
        listed: Whether an index lists it already, so that an earlier version may have built it.

    Raises:
        UnusableWheelError: It does not exist.
        PublishError: It is not a wheel of vLLM that is what its name says.
    """
    if not wheel.exists():
        raise UnusableWheelError(
            f"{wheel} is not there", where="WHEEL", next_step="give the path of a wheel that was built"
        )
    found = read_wheel(wheel, listed=listed)
    try:
        digest, size = file_digest(wheel), wheel.stat().st_size
    except OSError as error:
        raise PublishError(f"{wheel.name} cannot be read: {error.strerror}", where=wheel) from error
    note = found.note
    published = now or datetime.now(UTC)
    return Entry(
        filename=wheel.name,
        sha256=digest,
        size=size,
        metadata_sha256=_digest(found.metadata),
        requires_python=found.requires_python,
        version=str(found.version),
        target=_target(note, target, wheel),
        commit=_commit(note, commit, wheel, needed=found.version.is_devrelease),
        kernels=note.kernel_key if note else "",
        fixed_faults=_fixed_faults(note),
        gaps=untried_lines(note.untried) if note else (),
        uploaded=stamp(published),
        made=moment_of(note.source.epoch, published) if note else stamp(published),
    ), found.metadata


def _fixed_faults(note: WheelNote | None) -> int | None:
    return len(note.fixed_faults) if note and (note.fixed_faults or note.upstream_kernels) else None


def subject_line(text: str) -> str:
    """Return the first line of a commit's message as an index keeps it: with nothing that a terminal would obey."""
    return printable(text.partition("\n")[0].strip())[:_SUBJECT]


def stamp(moment: datetime) -> str:
    """Return a moment as an index writes it (PEP 700: ISO 8601, UTC, ends in ``Z``)."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment_of(epoch: int, now: datetime) -> str:
    """Return a commit's moment as an index writes it; whoever makes a commit chooses it, so one to come is now.

    Args:
        epoch: Seconds since 1970.
        now: The latest that it can be.
    """
    return stamp(datetime.fromtimestamp(max(0, min(epoch, int(now.timestamp()))), UTC))


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
