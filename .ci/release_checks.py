"""What a release has to pass: each check has a name, and all that fail are listed."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import yaml
from changelog import UNRELEASED, ChangelogError, check_changelog, upcoming
from packaging.version import InvalidVersion, Version
from release_build import ReleaseError, build_twice, clone, first_clone, git, run
from release_install import smoke_test, use_with_pipx, use_with_uvx
from release_provenance import try_signing

from cpuwheels.core.errors import CpuwheelsError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CITATION = "CITATION.cff"


@dataclass
class Release:
    """A release that is checked.

    Attributes:
        root: The checkout.
        work: Empty folder for all that is made on the way.
        version: Of the release; "" for a development version.
        is_tagged: Whether the commit has the tag.
        files: Sdist and wheel, as soon as they are built.
    """

    root: Path
    work: Path
    version: str
    is_tagged: bool
    files: list[Path] = field(default_factory=list)

    @property
    def source(self) -> Path:
        """The clone that the files were built from."""
        return first_clone(self.work)

    @property
    def wheel(self) -> Path:
        """The wheel."""
        return self.files[1]

    @property
    def built_version(self) -> str:
        """The version that the wheel's name has."""
        return self.wheel.name.split("-")[1]


def tagged_version(root: Path) -> str:
    """Return the version that the tag of a checkout's commit names.

    Raises:
        ReleaseError: There is not exactly one such tag.
    """
    tags = git(root, "tag", "--points-at", "HEAD", "--list", "v*").split()
    if len(tags) != 1:
        have = f"the tags {', '.join(tags)}" if tags else "no tag"
        raise ReleaseError(f"the commit has {have}; a release needs one, v<version> (or --dev, or --check)")
    return tags[0].removeprefix("v")


def released_versions(root: Path) -> set[str]:
    """Return the versions that have a tag."""
    return {tag.removeprefix("v") for tag in git(root, "tag", "--list", "v*").split()}


def next_version(root: Path) -> tuple[str, bool]:
    """Return the version that a checkout is checked for, and whether its commit has the tag.

    Without a tag it is the release that CHANGELOG.md has prepared, else "" for a development version.
    """
    if git(root, "tag", "--points-at", "HEAD", "--list", "v*"):
        return tagged_version(root), True
    return upcoming((root / "CHANGELOG.md").read_text(encoding="utf-8"), released_versions(root)), False


def check_committed(release: Release) -> str:
    """Check that no file differs from the commit."""
    if changes := git(release.root, "status", "--porcelain"):
        raise ReleaseError(f"files differ from the commit; commit them first:\n{changes}")
    return git(release.root, "rev-parse", "--short", "HEAD")


def check_version(release: Release) -> str:
    """Check that the version is one, and newer than all that have a tag."""
    if not release.version:
        return "a development version"
    try:
        version = Version(release.version)
    except InvalidVersion as error:
        raise ReleaseError(f"{release.version} is no version by PEP 440") from error
    if str(version) != release.version:
        raise ReleaseError(f"{release.version} is written {version}")
    others = released_versions(release.root) - {release.version}
    if newer := [other for other in others if Version(other) >= version]:
        raise ReleaseError(f"{release.version} is not newer than {', '.join(sorted(newer))}")
    return f"{release.version}{'' if release.is_tagged else ', without a tag yet'}"


def check_changes(release: Release) -> str:
    """Check that the changelog says what the release brings."""
    text = (release.root / "CHANGELOG.md").read_text(encoding="utf-8")
    name = release.version or UNRELEASED
    check_changelog(text, name, dated=release.is_tagged)
    return f"section [{name}]"


def check_citation(release: Release) -> str:
    """Check that CITATION.cff names the release."""
    found = yaml.safe_load((release.root / CITATION).read_text(encoding="utf-8"))
    named = str(found.get("version"))
    if release.version and named != release.version:
        raise ReleaseError(f"{CITATION} has version {named}, not {release.version}; --prepare sets it")
    if release.is_tagged and not found.get("date-released"):
        raise ReleaseError(f"{CITATION} has no date-released; --prepare sets it")
    return f"version {named}"


def check_generated(release: Release) -> str:
    """Check that schemas, reference pages, lists of downloads, manual page and completion are current."""
    run([sys.executable, "-m", "cpuwheels", "--root", release.root, "schema", "--check"], release.work)
    return "schemas, reference pages, lists of downloads, manual page and completion are current"


def check_locks(release: Release) -> str:
    """Check that the locks of Python packages fit what they are made from. Debian's name files by their digests."""
    folder = release.work / "locks"
    clone(release.root, folder)
    run([sys.executable, "-m", "cpuwheels", "--root", folder, "lock", "--only", "python"], release.work)
    if changes := git(folder, "diff", "--stat"):
        raise ReleaseError(f"nox -s lock changes the locks:\n{changes}")
    return "Python's fit what they are made from"


def check_docs(release: Release) -> str:
    """Check that the site of the documentation is built strictly."""
    run([sys.executable, "-m", "nox", "-s", "docs", "--", "--out", release.work / "docs"], release.root)
    return "the site is built, and no link, anchor, session, command or option is missing"


def check_builds(release: Release) -> str:
    """Build sdist and wheel twice, from two clones, and compare them."""
    release.files = list(build_twice(release.root, release.work, f"v{release.version}" if release.version else ""))
    if release.version and release.built_version != release.version:
        raise ReleaseError(f"the version is {release.version}, but the build finds {release.built_version}")
    return f"{' and '.join(path.name for path in release.files)}, twice with the same bytes"


def check_metadata(release: Release) -> str:
    """Have twine read the metadata."""
    run([sys.executable, "-m", "twine", "--no-color", "check", "--strict", *release.files], release.work)
    return "twine accepts it"


def check_installed(release: Release) -> str:
    """Install the wheel with its lock, compare the project's files in it, and use it in an empty folder."""
    smoke_test(release.wheel, release.built_version, release.source, release.work / "installed")
    return "with locks/run.txt, and used in an empty folder; it has the project's files, manual page and completion"


def check_uvx(release: Release) -> str:
    """Use the wheel with uvx."""
    use_with_uvx(release.wheel, release.built_version, release.work / "uvx")
    return "runs it in an empty folder, with the newest packages that it accepts"


def check_pipx(release: Release) -> str:
    """Use the wheel with pipx."""
    use_with_pipx(release.wheel, release.built_version, release.work / "pipx")
    return "installs it with its manual page, and it runs in an empty folder"


def check_signing(release: Release) -> str:
    """Sign the files with a key of the moment, and verify that."""
    try_signing(release.root, release.files, release.built_version, release.work / "signed")
    return "provenance was signed with a key of the moment and verified; with another file it was refused"


Check = tuple[str, "Callable[[Release], str]"]

CHECKS_OF_THE_COMMIT: tuple[Check, ...] = (
    ("committed", check_committed),
    ("version", check_version),
    ("changelog", check_changes),
    ("citation", check_citation),
)
"""If one fails, nothing is built."""

CHECKS_OF_THE_PROJECT: tuple[Check, ...] = (
    ("generated", check_generated),
    ("locks", check_locks),
    ("documentation", check_docs),
)

CHECKS_OF_THE_FILES: tuple[Check, ...] = (
    ("metadata", check_metadata),
    ("installed", check_installed),
    ("uvx", check_uvx),
    ("pipx", check_pipx),
    ("attested", check_signing),
)


def run_checks(release: Release) -> list[str]:
    """Run all checks, print a line for each, and return the names of those that failed."""
    failed = _run(CHECKS_OF_THE_COMMIT, release)
    if failed:
        return failed
    failed = _run(CHECKS_OF_THE_PROJECT, release)
    build_failed = _run((("built", check_builds),), release)
    return [*failed, *(build_failed or _run(CHECKS_OF_THE_FILES, release))]


def _run(checks: tuple[Check, ...], release: Release) -> list[str]:
    failed = []
    for name, check in checks:
        try:
            print(f"✓ {name}: {check(release)}", flush=True)
        except (ReleaseError, ChangelogError, CpuwheelsError, OSError, subprocess.CalledProcessError) as error:
            failed.append(name)
            print(f"✗ {name}: {_indented(str(error))}", flush=True)
    return failed


def _indented(text: str) -> str:
    return re.sub(r"\n(?=.)", "\n  ", text.strip())
