"""The version of a commit, by upstream's rules: setuptools-scm's, with release tags alone."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from cpuwheels.core.errors import SourceError

if TYPE_CHECKING:
    from cpuwheels.fetch.git import Git
    from cpuwheels.source.repository import Repository

TAGS = "v[0-9]*"
DESCRIBE = ("describe", "--always", "--tags", "--long", "--abbrev=40", "--match", TAGS)
"""Release tags only, as upstream's setup.py asks for them; crate tags such as ``proto-v0.3.0`` do not count."""

NO_TAG = "0.0"
"""What setuptools-scm counts from where there is no tag."""

_NODE_DIGITS = 9
"""As many as setuptools-scm writes."""
_DESCRIBED = re.compile(r"(?:(?P<tag>.+)-(?P<distance>\d+)-g)?(?P<node>[0-9a-f]{40,64})")


@dataclass(frozen=True)
class Described:
    """What a source is called.

    Attributes:
        version: PEP 440 version without the ``+cpu`` label.
        version_from: For people: how it was found.
        commit: The commit that it is without any change, if it is one.
    """

    version: str
    version_from: str
    commit: str | None = None


def describe(git: Git, commit: str | None = None) -> Described:
    """Return the version of a commit, or of a work tree.

    The local part of a work tree with changes is ``+g<hash>.dirty`` instead of setuptools-scm's date, so that the same
    tree has the same version tomorrow.

    Args:
        git: The repository.
        commit: Its full hash; the work tree's, with its changes, if not given.

    Raises:
        SourceError: git cannot tell.
    """
    # Only here: most commands need no version of a commit, and these take a tenth of their start.
    from setuptools_scm.version import format_version, meta  # noqa: PLC0415
    from vcs_versioning import VcsEnvironment  # noqa: PLC0415

    asked = git.ask(*DESCRIBE, commit or "HEAD")
    match = _DESCRIBED.fullmatch(asked.output.strip()) if asked.returncode == 0 else None
    if match is None:
        raise _unknown(git, asked.output)
    node, dirty = match["node"], commit is None and is_changed(git)
    how = f"git describe: {match[0]}{'-dirty' if dirty else ''}"
    tag, distance = match["tag"], int(match["distance"] or 0)
    if tag is None:
        counted = git.ask("rev-list", "--count", node)
        if counted.returncode != 0:
            raise _unknown(git, counted.output)
        tag, distance = NO_TAG, int(counted.output)
        shallow = git.ask("rev-parse", "--is-shallow-repository").output.strip() == "true"
        depth = " of a shallow clone, whose count depends on its depth" if shallow else ""
        how = f"no release tag found: {distance} commits from {NO_TAG}{depth}"
    # Neither this machine's variables nor a pyproject.toml in the working folder may change a version.
    scheme = {"local_scheme": "no-local-version" if dirty else "node-and-date"}
    config = VcsEnvironment().build_config_from_data(relative_to=git.folder / "pyproject.toml", data=scheme)
    try:
        version = format_version(meta(tag, distance=distance, dirty=dirty, node=f"g{node}", config=config))
    except ValueError as error:
        raise _unknown(git, str(error)) from error
    if dirty:
        return Described(f"{version}+g{node[:_NODE_DIGITS]}.dirty", how)
    return Described(version, how, node)


def is_changed(git: Git) -> bool:
    """Return whether files of a work tree differ from its commit; those of submodules belong to no source.

    Raises:
        SourceError: git cannot tell.
    """
    # With its submodules, git would run what they configure.
    asked = git.ask("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all")
    if asked.returncode != 0:
        raise _unknown(git, asked.output)
    return bool(asked.output.strip())


def newest_release(repository: Repository) -> str:
    """Return the tag of the newest release; pre-releases and the tags of other things do not count.

    Raises:
        SourceError: There is none.
    """
    versions: dict[Version, str] = {}
    for tag in repository.git.ask("tag", "--list", TAGS).output.split():
        with contextlib.suppress(InvalidVersion):
            versions[Version(tag)] = tag
    releases = [version for version in versions if not version.is_prerelease]
    if not releases:
        raise SourceError(
            f"{repository.name} has no tag of a release",
            where="--latest-release",
            next_step="fetch the release tags: git fetch --tags",
        )
    return versions[max(releases)]


def _unknown(git: Git, output: str) -> SourceError:
    return SourceError(
        f"cannot tell the version of {git.folder} from git",
        where="--source",
        output=output,
        next_step="fetch the release tags: git fetch --tags",
    )
