"""Which source the user means."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from packaging.version import InvalidVersion, Version

from cpuwheels.errors import SourceError
from cpuwheels.source.sdist import SdistRequest, check_sha256
from cpuwheels.source.tree import TreeRequest, check_tree

if TYPE_CHECKING:
    from cpuwheels.console import Reporter
    from cpuwheels.model.matrix import Matrix
    from cpuwheels.source.result import Source
    from cpuwheels.store import Store


class SourceRequest(Protocol):
    """Something that can be turned into a source tree."""

    def get(self, store: Store, reporter: Reporter) -> Source:
        """Return the source, fetching it if needed."""


def request_source(text: str | None, sha256: str | None, matrix: Matrix) -> SourceRequest:
    """Return the request for what ``--source`` and ``--sha256`` say.

    Args:
        text: A version or a path; the matrix's default when None. Text with a slash, and ``.``, is a path.
        sha256: Digest of the sdist, for a version that the matrix does not pin.
        matrix: Pinned releases.

    Raises:
        SourceError: It is neither a version nor a folder, the version is not pinned, or the digest given
            contradicts the pinned one.
    """
    wanted = text or matrix.default_source
    if "/" in wanted or wanted in {".", ".."} or _is_folder(wanted):
        folder = Path(wanted).expanduser().resolve()
        check_tree(folder)
        if sha256 is not None:
            raise SourceError("a local tree has no sha256 to check", where="--sha256", next_step="leave --sha256 out")
        return TreeRequest(folder)
    version = _parse(wanted)
    given = check_sha256(sha256) if sha256 is not None else None
    release = matrix.release(version)
    if release is None:
        if given is None:
            known = ", ".join(known.version for known in matrix.releases)
            raise SourceError(
                f"vLLM {version} is not pinned",
                where="--source",
                next_step=f"pass its sdist's digest with --sha256, or use one of: {known}",
            )
        return SdistRequest(version, given, None, (), "pinned by --sha256")
    if given is not None and given != release.sdist.sha256:
        raise SourceError(
            f"--sha256 {given} is not what matrix.yaml pins for vLLM {version}: {release.sdist.sha256}",
            where="--sha256",
            next_step="leave --sha256 out, or correct matrix.yaml if the pin is wrong",
        )
    return SdistRequest(version, release.sdist.sha256, release.sdist.size, release.sdist.urls, "pinned in matrix.yaml")


def _is_folder(text: str) -> bool:
    try:
        return Path(text).is_dir()
    except OSError:
        return False  # too long for a file name


def _parse(text: str) -> str:
    try:
        version = Version(text.removeprefix("v"))
    except InvalidVersion as error:
        raise SourceError(
            f"{text!r} is neither a version nor a folder",
            where="--source",
            next_step="give a version such as 0.32.0, or the path of a vLLM tree (with a slash in it)",
        ) from error
    if version.local:
        raise SourceError(
            f"{text!r} has a local part; sdists have none",
            where="--source",
            next_step=f"use {version.public}",
        )
    return str(version)
