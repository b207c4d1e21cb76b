"""What a wheel needs for being built again: by digest, each with the addresses that this version trusts.

A statement may name any address. Files are looked for where matrix.yaml and the locks of the cpuwheels that built the
wheel say, and the user's own settings, and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.config.download_lists import target_downloads
from cpuwheels.config.package_urls import DEBIAN
from cpuwheels.config.python_lock import locked_files, pinned_digests
from cpuwheels.core.errors import CpuwheelsError
from cpuwheels.fetch.download import mirrored

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from cpuwheels.config.downloads import Download
    from cpuwheels.config.matrix import Matrix
    from cpuwheels.rebuild.plan import RebuildPlan

_RUN = "locks/run.txt"


@dataclass(frozen=True)
class WantedFile:
    """A file that is kept.

    Attributes:
        name: Its name.
        sha256: Its digest.
        stage: What it is for.
        urls: Where it may be, in order; none if an index has to be asked.
        size: Bytes, if known.
        project: The Python package that it is a wheel of.
        needed: Whether the wheel was made from it.
    """

    name: str
    sha256: str
    stage: str
    urls: tuple[str, ...]
    size: int | None = None
    project: str | None = None
    needed: bool = True


@dataclass(frozen=True)
class WantedCommit:
    """A commit that is kept.

    Attributes:
        kind: Of which project.
        commit: Its full hash.
        tag: Its tag, if it has one that a build asks for.
        repositories: Where it may be, in order.
        needed: Whether the wheel was made from it.
    """

    kind: str
    commit: str
    tag: str
    repositories: tuple[str, ...]
    needed: bool = True


@dataclass(frozen=True)
class LockedPackage:
    """A Python package of ``run.txt``.

    Attributes:
        project: Its name.
        version: Its version.
        digests: Of all its files.
    """

    project: str
    version: str
    digests: frozenset[str]


def wanted_files(plan: RebuildPlan, root: Path, matrix: Matrix, mirrors: Sequence[str]) -> list[WantedFile]:
    """Return the files of a wheel: what it was made from, and what a build of its target may download besides.

    Args:
        plan: How it is rebuilt, with what it was made from.
        root: Files of the cpuwheels that built it.
        matrix: The configuration that it was built with.
        mirrors: Of Debian, in order.

    Raises:
        MatrixError: A lock cannot be read.
    """
    used = {one.digest["sha256"] for one in plan.dependencies if one.digest and "sha256" in one.digest}
    listed = [one for one in _listed(plan, root, matrix) if "sha256" in one.digest]
    found = {
        one.digest["sha256"]: _wanted(one, mirrors, needed=one.digest["sha256"] in used or not plan.dependencies)
        for one in listed
        if one.stage != "source"
    }
    pinned = {one.digest["sha256"]: one for one in _all_pinned(root)}
    for one in plan.dependencies:
        sha256 = (one.digest or {}).get("sha256", "")
        stage = one.stage
        if not sha256 or sha256 in found or stage in {"patch", "cpuwheels", "kernels"}:
            continue
        if sha256 in pinned:
            found[sha256] = _wanted(pinned[sha256], mirrors, stage=stage)
        elif stage == "source":
            found[sha256] = _sdist(plan, matrix, sha256)
        elif stage == "torch":
            found[sha256] = WantedFile("torch", sha256, stage, (), project="torch")
        else:
            found[sha256] = WantedFile(one.name or sha256, sha256, stage or "other", ())
    if plan.sdist and plan.sdist not in found:
        found[plan.sdist] = _sdist(plan, matrix, plan.sdist)
    return list(found.values())


def wanted_commits(plan: RebuildPlan, matrix: Matrix) -> list[WantedCommit]:
    """Return the commits of a wheel, but for that of cpuwheels.

    Args:
        plan: How it is rebuilt, with what it was made from.
        matrix: The configuration that it was built with.
    """
    used = {one.digest["gitCommit"] for one in plan.dependencies if one.digest and "gitCommit" in one.digest}
    found = [] if plan.sdist else [WantedCommit("vllm", plan.asked.source, "", matrix.repositories)]
    machine = matrix.target(plan.asked.target).machine
    pins = [("onednn", tag, pin) for tag, pin in matrix.onednn.items() if not pin.machines or machine in pin.machines]
    pins += [("acl", tag, pin) for tag, pin in matrix.acl.items() if machine in pin.machines]  # type: ignore[misc]
    for kind, tag, pin in pins:
        if pin.commit:
            found.append(WantedCommit(kind, pin.commit, tag, pin.repositories, needed=pin.commit in used))
    return found


def locked_packages(root: Path) -> list[LockedPackage]:
    """Return the Python packages that run a version of cpuwheels.

    Args:
        root: Its files.
    """
    return [
        LockedPackage(canonicalize_name(name), version, digests)
        for name, version, digests in pinned_digests((root / _RUN).read_text(encoding="utf-8"))
    ]


def _listed(plan: RebuildPlan, root: Path, matrix: Matrix) -> tuple[Download, ...]:
    """Return what a build of the wheel's own version may download."""
    target = matrix.target(plan.asked.target)
    if plan.sdist and matrix.release(plan.asked.source):
        target = target.model_copy(update={"default_source": plan.asked.source})
    return target_downloads(root, matrix, target).downloads


def _all_pinned(root: Path) -> Iterator[Download]:
    """Yield what any lock of a version names."""
    from cpuwheels.config.downloads import debian_packages, python_file  # noqa: PLC0415

    for lock in sorted((root / "locks").glob("*.yaml")):
        try:
            yield from debian_packages(load_lock(root, lock.stem), "toolchain")
        except CpuwheelsError:
            continue  # another kind of lock
    for lock in sorted((root / "locks").glob("pylock.*.toml")):
        yield from (python_file(file, "build-tools") for file in locked_files(lock))


def _wanted(one: Download, mirrors: Sequence[str], *, needed: bool = True, stage: str = "") -> WantedFile:
    below = one.location.removeprefix(f"{DEBIAN}/") if one.location.startswith(f"{DEBIAN}/") else ""
    name = unquote(urlsplit(one.location).path.rpartition("/")[2]) or one.name
    python = one.name.endswith(".whl")
    urls = mirrored(below, [*mirrors, DEBIAN]) if below else ((one.location,) if one.location else ())
    project = canonicalize_name(one.name.partition("-")[0]) if python else "torch" if one.stage == "torch" else None
    return WantedFile(
        name=name,
        sha256=one.digest["sha256"],
        stage=stage or one.stage,
        urls=tuple(dict.fromkeys(urls)),
        size=one.size,
        project=project if not below else None,
        needed=needed,
    )


def _sdist(plan: RebuildPlan, matrix: Matrix, sha256: str) -> WantedFile:
    release = matrix.release(plan.asked.source)
    archive = release.sdist if release and release.sdist.sha256 == sha256 else None
    name = f"vllm-{plan.asked.source}.tar.gz"
    urls, size = (archive.urls, archive.size) if archive else ((), None)
    return WantedFile(name, sha256, "source", urls, size)
