"""The overlay built into a wheel, audited and brought into canonical form."""

from __future__ import annotations

import json
import sys
import zipfile
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from packaging.utils import parse_wheel_filename

from cpuwheels.errors import AuditError, CommandError, WheelError
from cpuwheels.keys import file_digest
from cpuwheels.process import closed_environment, run
from cpuwheels.storage import remove_tree, storage_errors
from cpuwheels.wheel.binaries import audited_binaries, audited_name
from cpuwheels.wheel.canonical import canonicalize
from cpuwheels.wheel.described import KeptDescription
from cpuwheels.wheel.dist_info import dist_info_of
from cpuwheels.wheel.overlay import write_overlay
from cpuwheels.wheel.project import Project, differences, read_project
from cpuwheels.wheel.streams import Streams, keep_wheel, kept_wheel
from cpuwheels.wheel.validation import Expectations, validate_wheel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cpuwheels.store import Store
    from cpuwheels.wheel.audited import Audited, AuditPolicy, Bundled
    from cpuwheels.wheel.instructions import Judged
    from cpuwheels.wheel.overlay import Overlay, Parts
    from cpuwheels.wheel.requirements import MovedRequirement

NOTE = "cpuwheels.json"
"""File below ``.dist-info`` that says what the wheel was made from."""

# The umask is set in the child: this process may have other threads that write files. And this wheel is packed
# once more in canonical form, so the time for compressing it is saved: zipfile asks zlib for this default level.
_HOOK = (
    "import os, sys, zlib; os.umask(0o022); zlib.Z_DEFAULT_COMPRESSION = zlib.Z_NO_COMPRESSION; "
    "from scikit_build_core.build import build_wheel; print(build_wheel(sys.argv[1]))"
)


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


def build_overlay(
    overlay: Overlay, *, python: Path, epoch: int, out: Path, log: Path, platform: str | None = None
) -> Path:
    """Call the overlay's PEP 517 hook and return the wheel it wrote.

    Args:
        overlay: The project.
        python: Interpreter with the build backend.
        epoch: ``SOURCE_DATE_EPOCH``, seconds since 1970.
        out: Emptied, then holds the wheel alone.
        log: Log file of the step.
        platform: What Python takes for its platform, and the wheel's tag names; this machine's if not given.

    Raises:
        WheelError: The hook fails.
    """
    with storage_errors(out):
        remove_tree(out)
        out.mkdir(parents=True)
        remove_tree(overlay.folder / "build")
    # The variable is CPython's own for cross builds (Lib/sysconfig, get_platform).
    host = {"_PYTHON_HOST_PLATFORM": platform} if platform else {}
    env = closed_environment({"SOURCE_DATE_EPOCH": str(epoch)} | host, path_first=[python.parent])
    try:
        run([python, "-c", _HOOK, out], log=log, env=env, cwd=overlay.folder)
    except CommandError as error:
        raise WheelError(
            "the wheel cannot be built from its overlay project",
            where=overlay.folder,
            log=log,
            output=error.output,
            next_step=f"try it by hand: uv build --wheel --no-build-isolation {overlay.folder}",
        ) from error
    wheels = sorted(out.glob("*.whl"))
    if len(wheels) != 1:
        raise WheelError(f"the build left {len(wheels)} wheels, expected one", where=out, log=log)
    return wheels[0]


def check_complete(wheel: Path, files: frozenset[str], project: Project) -> None:
    """Raise if a wheel lacks a file or says other metadata than declared.

    Raises:
        WheelError: The first missing or additional file, or field, is named.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = {info.filename for info in archive.infolist() if not info.is_dir()}
        dist_info = dist_info_of(names)
        entry_points = f"{dist_info}/entry_points.txt"
        written = read_project(
            archive.read(f"{dist_info}/METADATA"),
            archive.read(entry_points).decode() if entry_points in names else "",
        )
    content = {name for name in names if not name.startswith(f"{dist_info}/")}
    faults = [f"{name} is missing" for name in sorted(files - content)]
    faults += [f"{name} should not be there" for name in sorted(content - files)]
    faults += differences(project, written)
    faults += [
        f"licence file {name} is missing"
        for name in project.license_files
        if f"{dist_info}/licenses/{name}" not in names
    ]
    if faults:
        raise WheelError(
            f"the wheel is not what the source declares ({len(faults)} differences)",
            where=wheel,
            output="\n".join(faults[:20]),
            next_step="report this with the log: the build backend changed something on the way",
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
