"""Packaging a wheel, in five steps: build, audit, canonicalise, validate, keep."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from packaging.utils import parse_wheel_filename

from cpuwheels.audit.cache import audited_binaries, audited_name
from cpuwheels.audit.validate import Expectations, validate_wheel
from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import AuditError
from cpuwheels.core.filesystem import storage_errors
from cpuwheels.wheel.canonical import canonicalize
from cpuwheels.wheel.deflate_cache import Streams, keep_wheel, kept_wheel
from cpuwheels.wheel.dist_info_cache import KeptDescription
from cpuwheels.wheel.overlay import write_overlay
from cpuwheels.wheel.pep517 import build_overlay, check_complete

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cpuwheels.audit.instructions import Judged
    from cpuwheels.audit.policy import Audited, AuditPolicy, Bundled
    from cpuwheels.core.store import Store
    from cpuwheels.wheel.core_metadata import Project
    from cpuwheels.wheel.overlay import Parts
    from cpuwheels.wheel.requirements import MovedRequirement

NOTE = "cpuwheels.json"
"""File below ``.dist-info`` that says what the wheel was made from."""


@dataclass(frozen=True)
class BuiltWheel:
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
        instructions: What each file was held against, and how much of it was judged.
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

    def as_record(self) -> dict[str, Any]:
        """Return what the build record says of the wheel."""
        record = asdict(self) | {"file": self.path.name}
        del record["path"]
        return record


def build_wheel(
    parts: Parts,
    *,
    python: Path,
    backend: str,
    epoch: int,
    note: Mapping[str, Any],
    policy: AuditPolicy,
    store: Store,
    work: Path,
    out: Path,
    log: Path,
    audited: tuple[str, Audited] | None = None,
    add: Mapping[str, bytes] | None = None,
    forbidden_paths: Sequence[Path] = (),
) -> BuiltWheel:
    """Build, audit, canonicalize and validate the wheel.

    Args:
        parts: What the wheel is made of; it has to say all of the metadata.
        python: Interpreter of the build environment.
        backend: Names the build environment.
        epoch: ``SOURCE_DATE_EPOCH``, seconds since 1970.
        note: What the wheel was made from (kernel key, alternates, toolchain, source digest); written into
            the wheel as ``cpuwheels.json``, so it must not hold times or paths.
        policy: What its binaries are audited against.
        store: Where audited binaries and compressed files are kept.
        work: For the steps between; emptied.
        out: Where the wheel goes, in one rename.
        log: Log file of the step.
        audited: Key and result of an audit of these binaries, if they come from a finished wheel.
        add: More files below ``.dist-info``.
        forbidden_paths: Folders of this machine whose names no binary may hold, besides ``work``.

    Raises:
        WheelError: The build fails, or the wheel lacks a file or a piece of metadata.
        AuditError: The wheel breaks the target's policy, or something else is wrong with it.
    """
    python, work, out = python.absolute(), work.absolute(), out.absolute()
    platform = f"linux-{policy.machine}" if policy.system == "Linux" else None
    project = parts.project
    kept_description = KeptDescription(parts, f"{backend} {platform or sys.platform}", store)
    with storage_errors(work):
        raw = kept_description.wheel(work / "raw")
    package = parts.package if raw else {}
    if raw is None:
        overlay = write_overlay(work / "overlay", parts)
        raw = build_overlay(overlay, python=python, epoch=epoch, out=work / "raw", log=log, platform=platform)
        kept_description.keep(raw)
    check_complete(raw, parts.files - package.keys(), project)
    key, found = audited or audited_binaries(raw, policy, store=store, work=work / "audit", log=log)
    path = out / audited_name(raw, found)
    kept = kept_wheel(store, key)
    with Streams([wheel for wheel in (found.path, kept) if wheel is not None]) as streams:
        canonicalize(
            raw, path, epoch=epoch, add={NOTE: render_note(note, found, project), **(add or {})}, instead=found.path,
            streams=streams, files=package,
        )  # fmt: skip
    expected = Expectations(
        policy=policy.elf_policy(),
        excluded=policy.excluded,
        modules=tuple(sorted(name for name in parts.files if name.endswith(".so"))),
        forbidden_paths=tuple(str(folder) for folder in (work, *forbidden_paths)),
    )
    require_valid(path, expected, log=log)
    if kept is None:
        keep_wheel(store, key, path)
    return BuiltWheel(
        path=path,
        sha256=file_digest(path),
        size=path.stat().st_size,
        tags=tuple(sorted(str(tag) for tag in parse_wheel_filename(path.name)[3])),
        policy=found.policy,
        versions=found.versions,
        bundled=found.bundled,
        moved_requirements=project.moved,
        instructions=found.instructions,
    )


def require_valid(wheel: Path, expected: Expectations, *, log: Path | None = None) -> None:
    """Raise, and take the wheel away, if anything is wrong with it.

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


def render_note(note: Mapping[str, Any], audited: Audited, project: Project) -> bytes:
    """Return the content of ``cpuwheels.json``: the caller's facts and what the wheel's making added."""
    facts = {
        **note,
        "bundled_libraries": {library.path: library.soname for library in audited.bundled},
        "moved_requirements": [
            {"declared": move.original, "now": move.replacement, "extra": move.extra} for move in project.moved
        ],
        "policy": audited.policy,
        "symbol_versions": list(audited.versions),
    }
    return (json.dumps(facts, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()
