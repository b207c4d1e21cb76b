"""Something that a build downloads, with its digest and its address: for the lists of downloads and for provenance."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from packaging.version import Version
from pydantic import Field

from cpuwheels.config.package_urls import DEBIAN, archive, debian, pypi
from cpuwheels.core.models import Strict
from cpuwheels.core.urls import without_userinfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cpuwheels.config.debian_lock import DebianLock
    from cpuwheels.config.matrix import Matrix
    from cpuwheels.config.pins import AclPin, DebianSource, OneDnnPin, TorchPin
    from cpuwheels.config.python_lock import LockedFile

TOOLS = "pylock.build-tools.toml"
"""The lock of the build tools (PEP 751): the same as ``build-tools.txt``, with the name of each file."""

ZIG = "pylock.zig.toml"
PYPI = "https://pypi.org/simple"
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
    "helpers",
    "emulation",
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
    """Where it can be fetched; empty if that is looked up, or if the user's own settings say it."""
    page: str = ""
    """Page of a package index on which its address is looked up, if that is not known."""
    size: int | None = None
    """Bytes."""
    key: str = ""
    """Digest of what was made of it, where the bytes that were fetched are not known."""


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
        page="" if archive else f"{PYPI}/vllm/",
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
    index = pin.index_for(system)
    return Download(
        stage="torch",
        name="torch",
        version=version,
        uri=str(pypi("torch", version, repository=index)),
        digest={"sha256": sha256},
        page=f"{index.rstrip('/')}/torch/",
    )
