"""Wheels of a lock fetched one by one, for a run in which uv gets no network."""

from __future__ import annotations

import os
import platform
from contextlib import contextmanager
from typing import TYPE_CHECKING

from packaging.tags import compatible_tags, cpython_tags, platform_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from cpuwheels.config.python_lock import locked_files
from cpuwheels.core.errors import DownloadError
from cpuwheels.core.filesystem import link_or_copy, make_folders, storage_errors
from cpuwheels.fetch.download import Pinned, fetch
from cpuwheels.fetch.requests import is_locked
from cpuwheels.fetch.simple_index import index_files
from cpuwheels.fetch.uv import INDEXES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from packaging.tags import Tag

    from cpuwheels.config.python_lock import LockedFile
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store

INDEX_VARIABLE = "CPUWHEELS_PYPI_INDEX"
"""Names a package index (PEP 503 or PEP 691) that is asked before the addresses of a lock."""


@contextmanager
def wheels_place(lock: Path, python: str, *, store: Store, reporter: Reporter) -> Iterator[list[str | Path]]:
    """Yield the options with which uv finds the wheels of a lock: in a locked run those of a folder, else none.

    An index of this machine that the user named needs none either: uv compares what it takes from there with the lock.

    Args:
        lock: The lock with the name of each file (PEP 751).
        python: Version of the Python that they are for, such as ``3.11``.
        store: Where they are kept.
        reporter: Reports them.

    Raises:
        MatrixError: The lock cannot be read.
        DownloadError: As `fetch_wheels`, and the other errors of it.
    """
    if not is_locked() or any(os.environ.get(name, "").startswith("file://") for name in INDEXES):
        yield []
        return
    with store.scratch("wheels") as work:
        yield fetch_wheels(locked_files(lock), python, work / "wheels", store=store, reporter=reporter)


def fetch_wheels(
    files: Iterable[LockedFile], python: str, folder: Path, *, store: Store, reporter: Reporter
) -> list[str | Path]:
    """Put the wheels of a lock for a Python of this machine into a folder.

    Args:
        files: Of the lock.
        python: Version, such as ``3.11``.
        folder: Where they go.
        store: Where they are kept.
        reporter: Reports them.

    Returns:
        The options with which uv takes packages from there alone.

    Raises:
        DownloadError: One cannot be fetched.
        DigestMismatchError: Its bytes are not those of the lock.
        LockedError: The run is locked, and the list of its downloads does not have it.
    """
    with storage_errors(folder):
        make_folders(folder)
    for file in best_wheels(files, tags_here(python)):
        pinned = Pinned(file.name, locations(file), file.sha256, file.size, file_name=file.name)
        found = fetch(
            pinned,
            store,
            on_bytes=lambda done, total, name=file.name: reporter.download(name, done, total),  # type: ignore[misc]
        )
        with storage_errors(folder):
            link_or_copy(str(found), str(folder / file.name))
    return ["--no-index", "--find-links", folder]


def wheel_sizes(lock: Path, python: str) -> dict[str, int]:
    """Return the bytes of the wheel of each package of a lock that a Python of this machine installs.

    Args:
        lock: The lock with the name of each file (PEP 751).
        python: Version, such as ``3.11``.

    Returns:
        By ``name==version``, the name normalised; nothing if there is no such lock.

    Raises:
        MatrixError: The lock cannot be read.
    """
    if not lock.is_file():
        return {}
    best = best_wheels(locked_files(lock), tags_here(python))
    return {f"{canonicalize_name(file.project)}=={file.version}": file.size for file in best if file.size is not None}


def locations(file: LockedFile, environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return where a file may be fetched: on the index that the user named, then as the lock says."""
    index = environ.get(INDEX_VARIABLE)
    if not index:
        return (file.url,)
    page = f"{index.rstrip('/')}/{canonicalize_name(file.project)}/"
    try:
        offered = index_files(page, setting=INDEX_VARIABLE) or []
    except DownloadError:
        offered = []  # the lock's own address may work
    return (*(one.url for one in offered if one.name == file.name), file.url)


def best_wheels(files: Iterable[LockedFile], tags: Sequence[Tag]) -> list[LockedFile]:
    """Return of each package and version the wheel that is installed; none of a package that has no wheel.

    Args:
        files: Of a lock.
        tags: Of the wheels that can be installed, the best first.
    """
    ranks = {tag: rank for rank, tag in reversed(list(enumerate(tags)))}
    best: dict[tuple[str, str], tuple[int, LockedFile]] = {}
    for file in files:
        fitting = [ranks[tag] for tag in _tags_of(file.name) if tag in ranks]
        key = (file.project, file.version)
        if fitting and (key not in best or min(fitting) < best[key][0]):
            best[key] = (min(fitting), file)
    return [file for _, file in best.values()]


def tags_here(python: str) -> list[Tag]:
    """Return the tags of the wheels that a Python of this machine installs, the best first."""
    version = tuple(int(part) for part in python.split("."))
    platforms = list(platform_tags())
    interpreter = f"cp{''.join(map(str, version))}" if platform.python_implementation() == "CPython" else None
    return [*cpython_tags(version, platforms=platforms), *compatible_tags(version, interpreter, platforms)]


def _tags_of(name: str) -> Collection[Tag]:
    try:
        return parse_wheel_filename(name)[3]
    except InvalidWheelFilename:
        return ()
