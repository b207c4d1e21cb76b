"""Package URLs (purl): how lists of downloads, provenance and bills of materials name one package in the same way."""

from __future__ import annotations

from packageurl import PackageURL

from cpuwheels.core.digests import COMMIT

_REPOSITORIES = {"oneDNN": "uxlfoundation/oneDNN", "Arm Compute Library": "ARM-software/ComputeLibrary"}
"""Where the commits of a library are."""

DEBIAN = "https://deb.debian.org/debian"
"""Where Debian's packages and source archives are; https://snapshot.debian.org keeps those that are no longer there."""


def pypi(name: str, version: str | None, file_name: str = "", repository: str = "") -> PackageURL:
    """Return the name of a distribution for Python, or of one of its files.

    Args:
        name: Its own.
        version: With its local label.
        file_name: Of a wheel or an sdist.
        repository: The index, if it is not PyPI.
    """
    given = {"file_name": file_name, "repository_url": repository}
    known = {key: value for key, value in given.items() if value}
    return PackageURL("pypi", None, name, version or None, known or None)


def github(repository: str, commit: str) -> PackageURL:
    """Return the name of a commit of a repository on GitHub.

    Args:
        repository: Owner and name.
        commit: Its hash, or a tag.
    """
    owner, _, name = repository.partition("/")
    return PackageURL("github", owner, name, commit)


def debian(file_name: str, version: str) -> PackageURL:
    """Return the name of a Debian package.

    Args:
        file_name: Such as ``libnuma1_2.0.12-1+b1_amd64.deb``; it lacks the version's epoch.
        version: With its epoch.
    """
    parts = file_name.removesuffix(".deb").split("_")
    return PackageURL("deb", "debian", parts[0], version, {"arch": parts[-1]})


def archive(name: str, version: str, path: str, digest: str) -> PackageURL:
    """Return the name of a source archive that Debian keeps.

    Args:
        name: Of the project.
        version: Of its release.
        path: Below a Debian mirror.
        digest: SHA-256 of the archive.
    """
    qualifiers = {"checksum": f"sha256:{digest}", "download_url": f"{DEBIAN}/{path}"}
    return PackageURL("generic", None, name, version, qualifiers)


def generic(name: str, version: str) -> PackageURL:
    """Return the name of what has no other one."""
    return PackageURL("generic", None, name, version)


def library(
    name: str, version: str, digest: str, *, package: str | None = None, archived: str | None = None
) -> PackageURL:
    """Return the name of a library in a wheel, by where its bytes or its sources come from.

    Args:
        name: As its project names it.
        version: Of its release.
        digest: SHA-256 of the package or the archive; a commit; or what only this project computes.
        package: File name of a Debian package with it.
        archived: Path of an archive of its sources below a Debian mirror.
    """
    if package:
        return debian(package, version)
    if archived:
        return archive(name, version, archived, digest)
    if COMMIT.fullmatch(digest) and name in _REPOSITORIES:
        return github(_REPOSITORIES[name], digest)
    return generic(name, version)
