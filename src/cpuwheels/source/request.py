"""Which source the user means."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from packaging.version import InvalidVersion, Version

from cpuwheels.core.errors import LockedError, SourceError
from cpuwheels.core.trust import Trust
from cpuwheels.fetch.git import FULL_HASH
from cpuwheels.fetch.git_archive import repositories_of
from cpuwheels.source.clone import REPOSITORY_VARIABLE, local_repository
from cpuwheels.source.commit import CommitRequest
from cpuwheels.source.sdist import SdistRequest, check_sha256
from cpuwheels.source.worktree import TreeRequest, check_tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cpuwheels.config.matrix import Matrix, Target
    from cpuwheels.config.options import BuildOptions
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store
    from cpuwheels.source.result import Source

_HASH = re.compile(r"[0-9a-f]{7,64}")
"""Git shows at least seven digits, and no version of vLLM is such a number."""


_NUMBERED = re.compile(r"v?[0-9]+\.")
"""A text that begins like this is meant as a version, so no history is fetched for a mistyped one."""


class SourceRequest(Protocol):
    """Something that can be turned into a source tree."""

    @property
    def trust(self) -> Trust:
        """Who vouches for the source."""

    def get(self, store: Store, reporter: Reporter) -> Source:
        """Return the source, fetching it if needed."""


def wanted_source(matrix: Matrix, target: Target, options: BuildOptions) -> SourceRequest:
    """Return the source that the options of a build mean; the target's default if they name none.

    Raises:
        SourceError, LockedError: As `request_source`.
    """
    return request_source(
        options.source,
        options.sha256,
        matrix,
        default=matrix.source_of(target),
        clone=options.repo,
        locked=options.locked,
    )


def request_source(
    text: str | None,
    sha256: str | None,
    matrix: Matrix,
    *,
    default: str | None = None,
    clone: Path | None = None,
    locked: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> SourceRequest:
    """Return the request that ``--source``, ``--sha256`` and ``--repo`` describe.

    Args:
        text: A version, a folder, or a commit by its hash, a tag or a branch.
        sha256: Digest of the sdist, for a version that the matrix does not pin.
        matrix: Pinned releases, and where commits come from.
        default: What is taken without a text; the matrix's own default when None.
        clone: A clone of this machine in which text is looked up, whatever it looks like; its HEAD without a text.
        locked: Refuse a name that may mean another commit tomorrow.
        environ: Where ``CPUWHEELS_VLLM_REPO`` is looked up.

    Raises:
        SourceError: The version is not pinned, the digest given contradicts the pinned one or belongs to
            no sdist, a version is badly written, the folder is no vLLM tree, or the clone is none.
        LockedError: A commit is not named by its full hash, and ``locked`` is set.
    """
    if clone is not None:
        _refuse(sha256, "a commit")
        folder = clone.expanduser().resolve()
        local_repository(folder)
        return _commit(text or "HEAD", folder, (), locked=locked)
    wanted = (text or default or matrix.default_source).strip()
    if wanted in {".", ".."} or wanted.startswith(("/", "./", "../", "~")) or _is_folder(wanted):
        _refuse(sha256, "a local tree")
        folder = Path(wanted).expanduser().resolve()
        check_tree(folder)
        return TreeRequest(folder)
    version = None if _HASH.fullmatch(wanted) else _version(wanted)
    release = matrix.release(version) if version else None
    if version is None or (release is None and sha256 is None and wanted.startswith("v")):
        _refuse(sha256, "a commit")
        remotes = repositories_of(matrix.repositories, REPOSITORY_VARIABLE, environ)
        return _commit(wanted, None, remotes, locked=locked)
    return _release(version, sha256, matrix)


def _commit(revision: str, clone: Path | None, remotes: tuple[str, ...], *, locked: bool) -> CommitRequest:
    if locked and not FULL_HASH.fullmatch(revision):
        raise LockedError(
            f"{revision!r} may mean another commit tomorrow and --locked refuses that",
            where="--source",
            next_step="give the commit's full hash, or build without --locked",
        )
    return CommitRequest(revision, clone, remotes)


def _release(version: str, sha256: str | None, matrix: Matrix) -> SdistRequest:
    given = check_sha256(sha256) if sha256 is not None else None
    release = matrix.release(version)
    if release is None:
        if given is None:
            known = ", ".join(known.version for known in matrix.releases)
            raise SourceError(
                f"vLLM {version} is not pinned",
                where="--source",
                next_step=f"pass its sdist's digest with --sha256, give its tag v{version} for the commit, or use one "
                f"of: {known}",
            )
        return SdistRequest(version, given, None, (), "pinned by --sha256")
    if given is not None and given != release.sdist.sha256:
        raise SourceError(
            f"--sha256 {given} is not what matrix.yaml pins for vLLM {version}: {release.sdist.sha256}",
            where="--sha256",
            next_step="leave --sha256 out, or correct matrix.yaml if the pin is wrong",
        )
    pinned = release.sdist
    return SdistRequest(version, pinned.sha256, pinned.size, pinned.urls, "pinned in matrix.yaml", Trust.RELEASE)


def _refuse(sha256: str | None, what: str) -> None:
    if sha256 is not None:
        raise SourceError(f"{what} has no sha256 to check", where="--sha256", next_step="leave --sha256 out")


def _is_folder(text: str) -> bool:
    try:
        return Path(text).is_dir()
    except OSError:
        return False  # too long for a file name


def _version(text: str) -> str | None:
    try:
        version = Version(text.removeprefix("v"))
    except InvalidVersion as error:
        if _NUMBERED.match(text):
            raise SourceError(
                f"{text!r} is neither a version nor a folder",
                where="--source",
                next_step="give a version such as 0.32.0, the path of a vLLM tree (with a slash in it), or a commit by "
                "its hash, branch or tag",
            ) from error
        return None
    if version.local:
        raise SourceError(
            f"{text!r} has a local part; sdists have none",
            where="--source",
            next_step=f"use {version.public}, or the hash of a commit",
        )
    return str(version)
