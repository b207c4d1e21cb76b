"""Packaging a wheel, in five steps: build, audit, canonicalise, validate, keep."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from packaging.utils import parse_wheel_filename

from cpuwheels.audit.cache import audited_binaries, audited_name, binary_digests
from cpuwheels.audit.validate import Expectations, validate_wheel
from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import AuditError
from cpuwheels.core.filesystem import storage_errors
from cpuwheels.kernels.manifest import FILE as MANIFEST
from cpuwheels.pipeline.provenance import wheel_note
from cpuwheels.sandbox.prepare import get_sandbox
from cpuwheels.wheel.canonical import canonicalize
from cpuwheels.wheel.deflate_cache import Streams, keep_wheel, kept_wheel, latest_wheel
from cpuwheels.wheel.dist_info import NOTE
from cpuwheels.wheel.dist_info_cache import DistInfoCache
from cpuwheels.wheel.overlay import write_overlay
from cpuwheels.wheel.pep517 import build_overlay, check_complete
from cpuwheels.wheel.sbom.schema import FILE as SBOM
from cpuwheels.wheel.wheel_metadata import required_torch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cpuwheels.audit.instructions import Judged
    from cpuwheels.audit.policy import Audited, AuditPolicy, Bundled
    from cpuwheels.config.context import BuildContext
    from cpuwheels.environment.sealed_env import Environment
    from cpuwheels.kernels.manifest import KernelManifest
    from cpuwheels.pipeline.provenance import Provenance, WheelNote
    from cpuwheels.wheel.overlay import Parts
    from cpuwheels.wheel.requirements import MovedRequirement


@dataclass(frozen=True)
class Package:
    """What a wheel is packaged from.

    Attributes:
        parts: What it is made of, with all of the metadata.
        environment: The build environment, with the build backend.
        epoch: ``SOURCE_DATE_EPOCH``, seconds since 1970.
        provenance: What it is made from; written into it.
        manifest: What its kernels are made from; likewise.
        policy: What its binaries are audited against.
        audited: Key and result of an audit of these binaries, if they come from a finished wheel.
    """

    parts: Parts
    environment: Environment
    epoch: int
    provenance: Provenance
    manifest: KernelManifest
    policy: AuditPolicy
    audited: tuple[str, Audited] | None = None


@dataclass(frozen=True)
class PackagedWheel:
    """A finished wheel.

    Attributes:
        path: The file.
        sha256: Of its bytes.
        size: Bytes.
        tags: Its compatibility tags, sorted.
        policy: The strictest platform policy its symbols satisfy.
        versions: Highest symbol version needed of each system library family.
        bundled: Libraries brought in.
        moved_requirements: URL requirements that were made plain.
        instructions: The limit of each file, and how much of it was checked.
        untried: For each library that has some: its kernels that no CPU has run yet.
        audit: Key of the audit of its binaries in the stores; empty if there was none for it.
    """

    path: Path
    sha256: str
    size: int
    tags: tuple[str, ...]
    policy: str
    versions: tuple[str, ...]
    bundled: tuple[Bundled, ...]
    moved_requirements: tuple[MovedRequirement, ...]
    instructions: tuple[Judged, ...] = ()
    untried: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    audit: str = ""

    def as_record(self) -> dict[str, Any]:
        """Return the wheel's part of the build record."""
        record = asdict(self) | {"file": self.path.name}
        del record["path"]
        return record


def package_wheel(context: BuildContext, package: Package, *, work: Path, out: Path) -> PackagedWheel:
    """Package a wheel.

    Args:
        context: The run; its store keeps audited binaries and compressed files.
        package: What the wheel is packaged from.
        work: For the steps between; emptied.
        out: Where the wheel goes, in one rename.

    Raises:
        WheelError: The build fails, or the wheel lacks a file or a piece of metadata.
        AuditError: The wheel breaks the target's policy, or something else is wrong with it.
    """
    work, log = work.absolute(), context.logs / "wheel.log"
    raw, files = _build(context, package, work, log)
    key, audited = package.audited or audited_binaries(
        raw, package.policy, store=context.store, work=work / "audit", log=log
    )
    kept = kept_wheel(context.store, key)
    similar = kept or latest_wheel(context.store)
    wheel = _canonicalise(package, raw, files, audited, similar, out.absolute())
    _validate(package, wheel, (work, context.paths.cache, context.root), log)
    if kept is None:
        keep_wheel(context.store, key, wheel)
    return _built(package, wheel, audited, "" if package.audited else key)


def audit_binaries(context: BuildContext, package: Package, *, work: Path) -> str:
    """Audit the binaries of a wheel that is not packaged yet, and return the key of the audit in the stores.

    Args:
        context: The run.
        package: What the wheel will be packaged from.
        work: For the steps between; emptied.

    Raises:
        WheelError: The build backend fails, or the wheel would lack a file.
        AuditError: The binaries break the target's policy.
    """
    work, log = work.absolute(), context.logs / "wheel.log"
    raw, _ = _build(context, package, work, log)
    return audited_binaries(raw, package.policy, store=context.store, work=work / "audit", log=log)[0]


def _build(context: BuildContext, package: Package, work: Path, log: Path) -> tuple[Path, Mapping[str, Path]]:
    """Return a wheel as the build backend writes it; if it is from the store, also the package files that it lacks."""
    parts, environment = package.parts, package.environment
    platform = f"linux-{package.policy.machine}" if package.policy.system == "Linux" else None
    kept = DistInfoCache(parts, f"{environment.key()} {platform or sys.platform}", context.store)
    with storage_errors(work):
        raw = kept.wheel(work / "raw")
    files = parts.package if raw else {}
    if raw is None:
        overlay = write_overlay(work / "overlay", parts)
        raw = build_overlay(
            overlay,
            python=environment.python.absolute(),
            epoch=package.epoch,
            out=work / "raw",
            log=log,
            sandbox=get_sandbox(context),
            platform=platform,
        )
        kept.keep(raw)
    check_complete(raw, parts.files - files.keys(), parts.project)
    return raw, files


def _canonicalise(
    package: Package, raw: Path, files: Mapping[str, Path], audited: Audited, similar: Path | None, out: Path
) -> Path:
    """Write the wheel with its audited binaries and our notes; entries that an earlier wheel compressed are copied."""
    wheel = out / audited_name(raw, audited)
    note = wheel_note(package.provenance, audited, package.parts.project.moved)
    sbom = _sbom(package, note, wheel.name, audited)
    with Streams([each for each in (audited.path, similar) if each is not None]) as streams:
        canonicalize(
            raw,
            wheel,
            epoch=package.epoch,
            add={NOTE: note.render(), MANIFEST: package.manifest.render(), SBOM: sbom},
            instead=audited.path,
            streams=streams,
            files=files,
        )
    return wheel


def _sbom(package: Package, note: WheelNote, name: str, audited: Audited) -> bytes:
    # Only here: it brings cyclonedx, which takes as long to import as all the rest.
    from cpuwheels.pipeline.sbom import Subject, wheel_sbom  # noqa: PLC0415

    project = package.parts.project
    torch = required_torch(project.requirements, name)
    subject = Subject(name, project.name, project.version, project.license_expression, torch)
    return wheel_sbom(note, subject, binary_digests(audited.path))


def _validate(package: Package, wheel: Path, forbidden: Sequence[Path], log: Path) -> None:
    """Raise, and remove the wheel, if anything is wrong with it."""
    require_valid(
        wheel,
        Expectations(
            policy=package.policy.elf_policy(),
            excluded=package.policy.excluded,
            modules=tuple(sorted(name for name in package.parts.files if name.endswith(".so"))),
            forbidden_paths=tuple(str(folder) for folder in forbidden),
        ),
        log=log,
    )


def require_valid(wheel: Path, expected: Expectations, *, log: Path | None = None) -> None:
    """Raise, and remove the wheel, if anything is wrong with it.

    Raises:
        AuditError: Every fault is listed.
    """
    if faults := validate_wheel(wheel, expected):
        wheel.unlink()
        raise AuditError(
            f"{len(faults)} things are wrong with {wheel.name}",
            where=wheel.parent,
            output="\n".join(faults),
            log=log,
            next_step="each line names the file; most come from how the kernels were compiled and linked",
        )


def _built(package: Package, wheel: Path, audited: Audited, key: str) -> PackagedWheel:
    return PackagedWheel(
        path=wheel,
        sha256=file_digest(wheel),
        size=wheel.stat().st_size,
        tags=tuple(sorted(str(tag) for tag in parse_wheel_filename(wheel.name)[3])),
        policy=audited.policy,
        versions=audited.versions,
        bundled=audited.bundled,
        moved_requirements=package.parts.project.moved,
        instructions=audited.instructions,
        untried=audited.untried,
        audit=key,
    )
