"""All that a build of a target may download, each with its digest: the generated files, and what a locked run allows.

The lists are for building a wheel and for the check that it can be loaded. What parity, serving, images and
sanitizers install besides is in their own locks.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cpuwheels.config.debian_lock import LICENCES, load_lock
from cpuwheels.config.downloads import (
    TOOLS,
    ZIG,
    Download,
    Stage,
    debian_packages,
    debian_source,
    git_commit,
    python_files,
    released_source,
    torch_wheel,
)
from cpuwheels.config.python_lock import locked_files
from cpuwheels.core.models import Strict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cpuwheels.config.matrix import Matrix, Target
    from cpuwheels.config.pins import AclPin, OneDnnPin

FOLDER = "locks/downloads"
"""Of the generated files, below the project's folder: one for each target."""

_ZIG_MACHINES = ("x86_64", "aarch64")
"""Machines on which zig compiles for another system."""


class DownloadList(Strict):
    """All that a build of a target may download: the pinned source, and every alternative that is pinned."""

    format: Literal[1] = 1
    target: str
    source: str
    """vLLM's version."""
    downloads: tuple[Download, ...]


def target_downloads(root: Path, matrix: Matrix, target: Target) -> DownloadList:
    """Return what a build of a target's default source may download.

    Args:
        root: The project's folder.
        matrix: The configuration.
        target: What is built.

    Raises:
        MatrixError: A lock cannot be read.
    """
    version = matrix.source_of(target)
    return DownloadList(target=target.id, source=version, downloads=source_downloads(root, matrix, target, version))


def source_downloads(
    root: Path, matrix: Matrix, target: Target, version: str | None, sha256: str | None = None
) -> tuple[Download, ...]:
    """Return what a build of a source may download.

    Args:
        root: The project's folder.
        matrix: The configuration.
        target: What is built.
        version: A release; None for a commit and a local tree, which may want any torch that is pinned.
        sha256: Digest of the release's sdist, if the matrix does not pin it.

    Raises:
        MatrixError: A lock cannot be read.
    """
    release = matrix.release(version) if version else None
    found = [released_source(matrix, version, sha256)] if version else []
    locks: tuple[tuple[Stage, Iterable[str | None]], ...] = (
        ("toolchain", [target.toolchain, target.binutils]),
        ("sysroot", [target.sysroot, target.python_headers]),
        ("compiler-cache", matrix.compiler_cache.values()),
        ("sandbox", matrix.sandbox.values()),
        ("licences", [LICENCES] if target.system == "Linux" else []),
        ("helpers", _helpers(root, matrix, target)),
    )
    for stage, names in locks:
        found += _packages(root, stage, names)
    if target.zig:
        found += python_files(locked_files(root / "locks" / ZIG), "toolchain")
    found += python_files(locked_files(root / "locks" / TOOLS), "build-tools")
    for torch in [release.torch] if release and release.torch else matrix.torch:
        found += _torch(root, matrix, target, torch)
    if target.onednn:
        own = {tag: pin for tag, pin in matrix.onednn.items() if target.machine in pin.machines}
        for tag, pin in (own or {tag: pin for tag, pin in matrix.onednn.items() if not pin.machines}).items():
            found += _onednn(tag, pin)
    found += [git_commit("acl", tag, pin.commit, pin) for tag, pin in _acl(matrix, target) if pin.commit]
    if target.tcmalloc and matrix.gperftools:
        found.append(debian_source("tcmalloc", "gperftools", matrix.gperftools))
    if target.root and (machines := _foreign_builders(root, target)):
        # The root is that of Debian's torch, too.
        there = {digest for one in found for digest in one.digest.values()}
        emulators = [lock for machine, lock in matrix.emulator.items() if machine in machines]
        packages = _packages(root, "emulation", [*emulators, target.root])
        found += [one for one in packages if one.digest["sha256"] not in there]
    return _sorted(found)


def download_files(root: Path, matrix: Matrix) -> dict[Path, str]:
    """Return the generated files with the texts that they should have.

    Args:
        root: The project's folder.
        matrix: The configuration.

    Raises:
        MatrixError: A lock cannot be read.
    """
    lists = [target_downloads(root, matrix, target) for target in matrix.targets if target.is_ready]
    return {root / FOLDER / f"{one.target}.json": _rendered(one) for one in lists}


def _rendered(one: DownloadList) -> str:
    """Return a list as JSON, one download a line, so that a change of it can be reviewed."""
    rows = ",\n  ".join(json.dumps(row.model_dump(exclude_defaults=True)) for row in one.downloads)
    head = {"format": one.format, "target": one.target, "source": one.source}
    return f'{json.dumps(head)[:-1]}, "downloads": [\n  {rows}\n]}}\n'


def _packages(root: Path, stage: Stage, names: Iterable[str | None]) -> Iterator[Download]:
    for name in filter(None, names):
        yield from debian_packages(load_lock(root, name), stage)


def _foreign_builders(root: Path, target: Target) -> set[str]:
    """Return the Linux machines of another kind that the target can be built on."""
    pinned = [load_lock(root, target.toolchain).machine] if target.toolchain else []
    return {*pinned, *(_ZIG_MACHINES if target.zig else ())} - ({target.machine} if target.system == "Linux" else set())


def _helpers(root: Path, matrix: Matrix, target: Target) -> Iterator[str | None]:
    """Yield the locks of what compiles this program's helpers where the target is of another kind than the machine."""
    machines = _foreign_builders(root, target)
    for own in matrix.targets:
        if own.is_ready and own.system == "Linux" and own.machine in machines:
            yield own.sysroot
            yield own.toolchain if own.toolchain and load_lock(root, own.toolchain).machine == own.machine else None


def _torch(root: Path, matrix: Matrix, target: Target, torch: str) -> Iterator[Download]:
    if torch not in matrix.torch:
        return
    pin = matrix.torch[torch]
    label = f"{torch}+{pin.local}" if target.system == "Linux" else torch
    for wheel in pin.wheels_for(target.machine):
        yield torch_wheel(label, wheel.sha256, pin, target.system)
    if alternate := pin.alternate(target.machine):
        yield from debian_packages(load_lock(root, alternate.root), "torch")


def _onednn(tag: str, pin: OneDnnPin) -> Iterator[Download]:
    if pin.commit:
        yield git_commit("onednn", f"oneDNN {tag}" if tag != pin.commit else "oneDNN", pin.commit, pin)
    yield from (debian_source("onednn", "oneDNN", source) for source in pin.alternates)


def _acl(matrix: Matrix, target: Target) -> list[tuple[str, AclPin]]:
    return [(f"Arm Compute Library {tag}", pin) for tag, pin in matrix.acl.items() if target.machine in pin.machines]


def _sorted(found: Iterable[Download]) -> tuple[Download, ...]:
    unique = {(one.stage, one.name, one.version, *sorted(one.digest.values())): one for one in found}
    return tuple(unique[key] for key in sorted(unique))
