"""vLLM's wheels for a target in package indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from cpuwheels.fetch.download import Pinned, fetch
from cpuwheels.fetch.simple_index import index_files

if TYPE_CHECKING:
    from pathlib import Path

    from packaging.version import Version

    from cpuwheels.config.matrix import Target
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store
    from cpuwheels.fetch.simple_index import IndexFile

PROJECT = "vllm"


def indexed_wheels(page: str, target: Target, reporter: Reporter, *, setting: str) -> list[IndexFile] | None:
    """Return the wheels for a target on a project's page, the newest version first; None if there is no such page.

    Args:
        page: URL of the page.
        target: What they have to be for.
        reporter: Announces wheels without a digest, which are not used.
        setting: Setting that names another index, for messages.

    Raises:
        DownloadError: The index does not answer.
    """
    files = index_files(page, setting=setting)
    if files is None:
        return None
    found = [(version, file) for file in files if (version := wheel_version(file.name, target)) is not None]
    if unpinned := [file.name for _, file in found if file.sha256 is None]:
        reporter.announce(f"{page} gives no sha256 for {', '.join(unpinned)}; not used")
    return [file for _, file in sorted(found, key=lambda one: one[0], reverse=True) if file.sha256 is not None]


def wheel_version(name: str, target: Target, project: str = PROJECT) -> Version | None:
    """Return the version of a file, if it is a wheel of vLLM, or another project, for a target."""
    try:
        found, version, _, tags = parse_wheel_filename(name)
    except InvalidWheelFilename:
        return None
    system = "macosx" if target.system == "Darwin" else "linux"
    fits = any(system in tag.platform and tag.platform.endswith(f"_{target.machine}") for tag in tags)
    return version if found == project and fits else None


def fetch_wheel(file: IndexFile, store: Store, reporter: Reporter) -> Path:
    """Return a wheel from the store, fetching it first if it is not there.

    Raises:
        DownloadError: It cannot be fetched.
        DigestMismatchError: Its bytes do not have the index's digest.
    """
    pinned = Pinned(file.name, (file.url,), file.sha256, file_name=file.name)
    return fetch(pinned, store, on_bytes=lambda done, total: reporter.download(file.name, done, total))
