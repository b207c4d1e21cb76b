"""Publishing one wheel by hand, with its lock and its reports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version
from pydantic import ValidationError

from cpuwheels.core.errors import PublishError
from cpuwheels.index.entry import VARIANT, Entry, Speed, read_entry, subject_line
from cpuwheels.index.lock import companion_lock
from cpuwheels.index.publish import Publication, publish, wheel_before
from cpuwheels.index.reports import companion_reports
from cpuwheels.index.signed import companion_provenance
from cpuwheels.pipeline.built_wheel import RECORD
from cpuwheels.pipeline.pylock import FILE as LOCK
from cpuwheels.verification.serving.result import SERVE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cpuwheels.attestation.sign import Signing
    from cpuwheels.attestation.verify import Trust
    from cpuwheels.config.matrix import Matrix
    from cpuwheels.index.bucket import Bucket
    from cpuwheels.index.publish import Published


def publish_wheel(
    bucket: Bucket,
    wheel: Path,
    matrix: Matrix,
    *,
    commit: str | None = None,
    target: str | None = None,
    subject: str = "",
    nightly: bool = False,
    address: str | None = None,
    version: str | None = None,
    locked: bool = False,
    signing: Signing | None = None,
    trust: Trust | None = None,
) -> Published:
    """Publish a wheel with the lock and the reports next to it.

    All of it is read as data, since whoever made the commit decides on it.

    Args:
        bucket: Where the index is kept.
        wheel: The file.
        matrix: Lists the targets that a wheel can have.
        commit: Of its source, if the wheel does not contain it.
        target: Target id, if the wheel does not contain it.
        subject: First line of the commit's message, if it is known.
        nightly: Whether it becomes the newest of its target.
        address: Where the users of the index reach it, for the lock.
        version: What was asked to be built, without a label: of the commit, or of a release if no commit is given. A
            wheel that says something else is refused.
        locked: Refuse a wheel whose build could fetch more than what is listed with its digest.
        signing: How its provenance is signed, after everything else about it was checked; not at all if not given.
        trust: Whose signatures count that are there already; one is published only if it was verified.

    Raises:
        PublishError: It or its lock cannot be listed in an index, a test of it failed, its provenance is not right, or
            it cannot be published.
        ProvenanceError: It cannot be signed.
        MatrixError: There is no such target.
    """
    entry, metadata = read_entry(wheel, commit=commit, target=target)
    matrix.target(entry.target)
    if version is not None:
        _require_asked(entry, wheel, commit, version)
    lock, content = companion_lock(wheel, entry, address) or (None, None)
    found = companion_reports(wheel, entry.sha256, also=[LOCK] if lock else [])
    if found.parity == "failed":
        raise PublishError(
            f"the kernels of {wheel.name} gave wrong results",
            where=wheel.with_name("parity.json"),
            next_step="read its parity.html; a wheel whose parity failed is not published",
        )
    if found.served == "failed":
        raise PublishError(
            f"a server with {wheel.name} does not answer as it should",
            where=wheel.with_name(SERVE),
            next_step="read its serve.json; a wheel that does not serve is not published",
        )
    if locked and not found.locked:
        raise _unlocked(wheel, was_locked=found.locked)
    if signing:
        trust = _signed_now(wheel, signing)
    signed, provenance = companion_provenance(wheel, entry, found.files.get(RECORD), trust, address)
    before = wheel_before(bucket, entry)
    same = before is not None and before.kernels == entry.kernels != ""
    speed = Speed(against=before.filename) if before is not None and same else found.speed
    known = {name: getattr(found, name) for name in ("parity", "tried", "served", "sandbox", "reproduced", "locked")}
    known["gaps"] = entry.gaps if found.parity == "not run" else found.gaps
    known |= {"subject": subject_line(subject), "lock": lock, "signed": signed, "speed": speed}
    entry = _with_reports(entry, {**known, "beside": tuple(sorted(found.files))})
    return publish(bucket, Publication(entry, wheel, metadata, found.files, nightly, content, provenance))


def _signed_now(wheel: Path, signing: Signing) -> Trust:
    """Sign a wheel's provenance and return whom to trust for it: only what was signed now counts."""
    from cpuwheels.attestation.keys import PUBLIC  # noqa: PLC0415  (with what signs)
    from cpuwheels.attestation.sign import sign_wheel  # noqa: PLC0415
    from cpuwheels.attestation.verify import Trust as Trusted  # noqa: PLC0415

    sign_wheel(wheel, signing)
    keys = () if signing.key is None else (signing.public_key or Path(f"{signing.key}{PUBLIC}"),)
    return Trusted(keys=keys, anybody=signing.keyless, trust_config=signing.trust_config)


def _with_reports(entry: Entry, said: Mapping[str, object]) -> Entry:
    """Return the entry with what the reports say.

    Raises:
        PublishError: They say what no page of the index can hold, so that nobody could read it any more.
    """
    try:
        return Entry.model_validate({name: getattr(entry, name) for name in Entry.model_fields} | dict(said))
    except ValidationError as error:
        fault = error.errors()[0]
        raise PublishError(
            f"a report of {entry.filename} cannot be published: {fault['loc'][0]}: {fault['msg']}",
            where=entry.filename,
            next_step="write the reports again with this version of cpuwheels",
        ) from error


def _unlocked(wheel: Path, *, was_locked: bool | None) -> PublishError:
    said = (
        "was built without --locked" if was_locked is False else "has no record next to it that says how it was built"
    )
    return PublishError(
        f"{wheel.name} {said}: not all that was fetched for it need be listed with a digest",
        where=wheel.with_name(RECORD),
        next_step="build it with --locked, or publish it with --no-locked; the index then says so",
    )


def _require_asked(entry: Entry, wheel: Path, commit: str | None, version: str) -> None:
    """Refuse a wheel that is not the one that was asked for: a commit could name itself as another or as a release.

    Raises:
        PublishError: It has another commit or version.
    """
    label = f"{version}{'.' if '+' in version else '+'}{VARIANT}"
    if entry.commit == commit and entry.version in {str(Version(version)), str(Version(label))}:
        return
    said = f"version {entry.version}" + (f" of commit {entry.commit}" if entry.commit else "")
    asked = f"version {version}" + (f" of commit {commit}" if commit else "")
    raise PublishError(
        f"{wheel.name} is {said}; {asked} was asked for",
        where=wheel,
        next_step="do not publish it; read what the commit does to its version",
    )
