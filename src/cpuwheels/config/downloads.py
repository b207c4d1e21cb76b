"""What a build of a target downloads, each with its digest: one list, for the generated file and for provenance."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from packaging.version import Version
from pydantic import Field

from cpuwheels.config.debian_lock import LICENCES, load_lock
from cpuwheels.config.package_urls import DEBIAN, archive, debian, pypi
from cpuwheels.config.python_lock import locked_files
from cpuwheels.core.models import Strict
from cpuwheels.core.urls import without_userinfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cpuwheels.config.debian_lock import DebianLock
    from cpuwheels.config.matrix import Matrix, Target
    from cpuwheels.config.pins import AclPin, DebianSource, OneDnnPin, TorchPin
    from cpuwheels.config.python_lock import LockedFile

FOLDER = "locks/downloads"
"""Of the generated files, below the project's folder: one for each target."""

TOOLS = "pylock.build-tools.toml"
"""The lock of the build tools (PEP 751): the same as ``build-tools.txt``, with the name of each file."""

ZIG = "pylock.zig.toml"
Stage = Literal[
    "source",
    "patch",
    "toolchain",
    "sysroot",
    "licences",
    "torch",
    "build-tools",
    "onednn",
    "acl",
    "tcmalloc",
    "kernels",
    "compiler-cache",
    "sandbox",
    "cpuwheels",
]
_REMOTE = {"http", "https", "ssh", "git"}
"""Schemes of addresses that mean the same on another machine."""

_BUILD_MACHINES = re.compile(r"-(any|.*manylinux.*_(x86_64|aarch64)|macosx.*_(arm64|universal2))\.whl$")
"""Names of wheels for the machines that build."""


class Download(Strict):
    """A file or a commit that a build takes from elsewhere."""

    stage: Stage
    """What it is for."""
    name: str
    version: str = ""
    uri: str = ""
    """A package URL, or ``git+https://…@commit``; empty for a file that only its digest names."""
    digest: dict[str, str] = Field(default_factory=dict)
    """By algorithm, as in-toto names them: ``sha256``, ``gitCommit``; empty if only `key` is known."""
    location: str = ""
    """Where it can be fetched; empty if the user's own settings say that."""
    size: int | None = None
    """Bytes."""
    key: str = ""
    """Digest of what was made of it, where the bytes that were fetched are not known."""


class DownloadList(Strict):
    """All that is pinned for a build of a target: the source, and every alternative."""

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
    found = [released_source(matrix, version, None)]
    locks: tuple[tuple[Stage, Iterable[str | None]], ...] = (
        ("toolchain", [target.toolchain, target.binutils]),
        ("sysroot", [target.sysroot, target.python_headers]),
        ("compiler-cache", matrix.compiler_cache.values()),
        ("sandbox", matrix.sandbox.values()),
        ("licences", [LICENCES] if target.system == "Linux" else []),
    )
    for stage, names in locks:
        for name in filter(None, names):
            found += debian_packages(load_lock(root, name), stage)
    if target.zig:
        found += python_files(locked_files(root / "locks" / ZIG), "toolchain")
    found += python_files(locked_files(root / "locks" / TOOLS), "build-tools")
    found += _torch(root, matrix, target, version)
    if target.onednn:
        own = {tag: pin for tag, pin in matrix.onednn.items() if target.machine in pin.machines}
        for tag, pin in (own or {tag: pin for tag, pin in matrix.onednn.items() if not pin.machines}).items():
            found += _onednn(tag, pin)
    found += [git_commit("acl", tag, pin.commit, pin) for tag, pin in _acl(matrix, target) if pin.commit]
    if target.tcmalloc and matrix.gperftools:
        found.append(debian_source("tcmalloc", "gperftools", matrix.gperftools))
    return DownloadList(target=target.id, source=version, downloads=_sorted(found))


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


def released_source(matrix: Matrix, version: str, sha256: str | None) -> Download:
    """Return the sdist of a release.

    Args:
        matrix: Has its address, if it is pinned there.
        version: vLLM's.
        sha256: Its digest; that of the matrix if not given.
    """
    release = matrix.release(version)
    archive = release.sdist if release and sha256 in {None, release.sdist.sha256} else None
    digest = sha256 or (archive.sha256 if archive else "")
    return Download(
        stage="source",
        name="vllm",
        version=str(Version(version)),
        uri=str(pypi("vllm", str(Version(version)), f"vllm-{Version(version)}.tar.gz")),
        digest={"sha256": digest},
        location=next((url for url in archive.urls if urlsplit(url).scheme in _REMOTE), "") if archive else "",
        size=archive.size if archive else None,
    )


def debian_packages(lock: DebianLock, stage: Stage) -> Iterator[Download]:
    """Yield the packages of a Debian lock."""
    for package in lock.packages:
        yield Download(
            stage=stage,
            name=package.name,
            version=package.version,
            uri=str(debian(package.path.rpartition("/")[2], package.version)),
            digest={"sha256": package.sha256},
            location=f"{DEBIAN}/{package.path}",
            size=package.size,
        )


def debian_source(stage: Stage, name: str, source: DebianSource) -> Download:
    """Return a source archive that Debian keeps."""
    return Download(
        stage=stage,
        name=name,
        version=source.version,
        uri=str(archive(name, source.version, source.debian, source.sha256)),
        digest={"sha256": source.sha256},
        location=f"{DEBIAN}/{source.debian}",
        size=source.size,
    )


def git_commit(stage: Stage, name: str, commit: str, pin: AclPin | OneDnnPin) -> Download:
    """Return a commit of a pinned repository.

    Args:
        stage: What it is for.
        name: Its tag, or what people call it.
        commit: Its full hash.
        pin: Has its repositories.
    """
    return Download(stage=stage, name=name, uri=git_uri(pin.repositories, commit), digest={"gitCommit": commit})


def git_uri(repositories: Iterable[str], commit: str) -> str:
    """Return the URI of a commit in the first of some repositories that others can reach; empty if there is none."""
    reached = next((one for one in repositories if urlsplit(one).scheme in _REMOTE), "")
    return f"git+{without_userinfo(reached)}@{commit}" if reached else ""


def python_files(files: Iterable[LockedFile], stage: Stage) -> Iterator[Download]:
    """Yield the wheels of a lock for the machines that build."""
    for file in files:
        if _BUILD_MACHINES.search(file.name):
            yield python_file(file, stage)


def python_file(file: LockedFile, stage: Stage) -> Download:
    """Return one file of a lock."""
    return Download(
        stage=stage,
        name=file.name,
        version=file.version,
        uri=str(pypi(file.project, file.version, file.name)),
        digest={"sha256": file.sha256},
        location=file.url,
        size=file.size,
    )


def torch_wheel(version: str, sha256: str, pin: TorchPin, system: str) -> Download:
    """Return a wheel of torch that is pinned by its digest.

    Args:
        version: With its local label.
        sha256: Of the wheel.
        pin: Has the index.
        system: As ``platform.system()`` names it.
    """
    uri = str(pypi("torch", version, repository=pin.index_for(system)))
    return Download(stage="torch", name="torch", version=version, uri=uri, digest={"sha256": sha256})


def _torch(root: Path, matrix: Matrix, target: Target, version: str) -> Iterator[Download]:
    release = matrix.release(version)
    if release is None or release.torch is None or release.torch not in matrix.torch:
        return
    pin = matrix.torch[release.torch]
    label = f"{release.torch}+{pin.local}" if target.system == "Linux" else release.torch
    for wheel in pin.wheels:
        if wheel.machine == target.machine:
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
