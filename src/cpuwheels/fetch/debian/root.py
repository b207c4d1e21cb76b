"""A lock's packages fetched and unpacked over one another into one root in the store."""

from __future__ import annotations

import contextvars
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

from cpuwheels.core.digests import make_key
from cpuwheels.core.errors import DownloadError, MatrixError, UnsafeArchiveError
from cpuwheels.core.links import link_faults
from cpuwheels.core.progress import Progress
from cpuwheels.core.units import format_size
from cpuwheels.fetch.debian.deb import UNUSED, unpack_deb
from cpuwheels.fetch.download import Pinned, fetch, mirrored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from cpuwheels.config.debian_lock import DebianLock, DebianPackage
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store

RECIPE = 1
"""Increased when the same packages would be unpacked into other bytes."""

_DOWNLOADS_AT_ONCE = 4
_MERGED = ("bin", "lib", "lib64")


def content_key(lock: DebianLock) -> str:
    """Return the key of a lock's unpacked files, the same on every machine and mirror."""
    # Named only where there are some, so that the keys of locks without them stay as they were.
    added = {name: value for name in ("keep_files", "links") if (value := getattr(lock, name))}
    return make_key(
        recipe=RECIPE,
        packages=[(package.name, package.sha256) for package in lock.packages],
        leave_out=[*UNUSED, *lock.leave_out_files],
        **added,
    )


def unpacked_root(
    lock: DebianLock,
    kind: str,
    *,
    mirrors: Sequence[str],
    store: Store,
    reporter: Reporter,
    finish: Callable[[Path, Path], None] | None = None,
    finish_key: str = "",
) -> Path:
    """Return the store entry with a lock's packages unpacked into it, making it first if need be.

    Args:
        lock: What to unpack.
        kind: The store's kind.
        mirrors: Where the packages are fetched from, in order.
        store: Where packages and roots are kept; with both cached, no network is needed.
        reporter: Reports the progress.
        finish: Called with the unpacked folder and the path it will have in the store.
        finish_key: Names what ``finish`` does, so that another one makes another entry.

    Raises:
        MatrixError: The lock holds no packages.
        DownloadError: No mirror has a package.
        DigestMismatchError: A mirror served other bytes than the pinned ones.
        UnsafeArchiveError: A package holds something that may not be unpacked, or a link leads out of the root.
        ToolchainError: A package is damaged.
    """
    if not lock.packages:
        raise MatrixError("the lock names no packages", where="locks/", next_step="run `nox -s lock`")
    key = root_key(lock, finish_key)

    def make(fresh: Path) -> None:
        size = format_size(sum(package.size for package in lock.packages))
        reporter.info(f"fetching and unpacking {len(lock.packages)} Debian packages ({size}) into {kind}")
        with _Downloads(lock, mirrors, store, reporter) as downloads:
            for package, file in downloads:
                unpack_deb(file, fresh, lock.leave_out_files, lock.keep_files)
                downloads.unpacked(package)
        merge_links(fresh)
        add_links(fresh, lock)
        check_root(fresh, f"the packages of {kind}")
        if finish is not None:
            finish(fresh, store.path(kind, key))

    return store.get(kind, key, make)


def root_key(lock: DebianLock, finish_key: str = "") -> str:
    """Return the store's key of a lock's unpacked packages; ``finish_key`` as for `unpacked_root`."""
    return make_key(content=content_key(lock), finish=finish_key)


def merge_links(root: Path) -> None:
    """Add the links of the merged ``/usr`` (``lib`` → ``usr/lib``) where the root lacks those folders.

    On an installed system Debian's base-files has them; the packages rely on them.
    """
    for name in _MERGED:
        link = root / name
        if (root / "usr" / name).is_dir() and not link.is_symlink() and not link.exists():
            link.symlink_to(f"usr/{name}")


def check_root(root: Path, name: str) -> None:
    """See that no link of all packages together leads out of the root.

    Each package's links stay inside by themselves; another package's may make them lead elsewhere.

    Raises:
        UnsafeArchiveError: One leads outside.
    """
    if fault := next(link_faults(root), None):
        raise UnsafeArchiveError(
            f"{name} may not be unpacked over one another: {fault}",
            where=root,
            next_step="do not use these packages; run `nox -s lock` against a mirror you trust",
        )


def add_links(root: Path, lock: DebianLock) -> None:
    """Add the links that a lock names.

    Raises:
        UnsafeArchiveError: One lies outside the root or leads out of it.
    """
    inside = root.resolve()
    for name, target in lock.links.items():
        link = root / name
        if not all(path.resolve().is_relative_to(inside) for path in (link.parent, link.parent / target)):
            raise UnsafeArchiveError(
                f"the link {name} → {target} leads out of the root",
                where="locks/: links",
                next_step="name paths below the root, without a slash in front",
            )
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)


def fetch_package(
    package: DebianPackage,
    mirrors: Sequence[str],
    store: Store,
    on_bytes: Callable[[int, int | None], None] | None = None,
) -> Path:
    """Return a package's file from the store, fetching it first if it is not there.

    Args:
        package: The package.
        mirrors: Debian mirrors, in order.
        store: Where it is kept.
        on_bytes: Called with (bytes so far, bytes in all or None).

    Raises:
        DownloadError: No mirror has it.
        DigestMismatchError: A mirror served other bytes than the pinned ones.
    """
    urls = mirrored(package.path, mirrors)
    pinned = Pinned(f"{package.name} {package.version}", urls, package.sha256, package.size)
    try:
        return fetch(pinned, store, on_bytes=on_bytes)
    except DownloadError as error:
        # A mirror drops a version as soon as a newer one is in the suite.
        raise DownloadError(
            error.what,
            where=error.where,
            output=error.output,
            next_step="if it is gone from the mirrors (status 404), Debian has published a newer point "
            "release: run `nox -s lock`, or set CPUWHEELS_DEBIAN_MIRROR to "
            "https://snapshot.debian.org/archive/debian/YYYYMMDDT000000Z with the date of the lock; "
            "else check the network, or name another mirror in CPUWHEELS_DEBIAN_MIRROR",
        ) from error


class _Downloads:
    """Fetches packages in a few threads and hands them out in the lock's order."""

    def __init__(self, lock: DebianLock, mirrors: Sequence[str], store: Store, reporter: Reporter) -> None:
        self._mirrors, self._store, self._reporter = mirrors, store, reporter
        self._total = sum(package.size for package in lock.packages)
        self._arrived = dict.fromkeys((package.name for package in lock.packages), 0)
        self._guard = threading.Lock()
        self._pool = ThreadPoolExecutor(_DOWNLOADS_AT_ONCE, thread_name_prefix="debian")
        self._files: list[tuple[DebianPackage, Future[Path]]] = [
            # Each with the context of this thread, which says what may be fetched.
            (package, self._pool.submit(contextvars.copy_context().run, self._fetch, package))
            for package in lock.packages
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def __iter__(self) -> Iterator[tuple[DebianPackage, Path]]:
        for package, future in self._files:
            yield package, future.result()

    def unpacked(self, package: DebianPackage) -> None:
        self._show(package, package.size)

    def _show(self, package: DebianPackage, arrived: int) -> None:
        with self._guard:
            self._arrived[package.name] = arrived
            done = sum(self._arrived.values())
            self._reporter.progress(Progress(done, self._total, unit="bytes", detail=package.name))

    def _fetch(self, package: DebianPackage) -> Path:
        return fetch_package(package, self._mirrors, self._store, lambda done, _: self._show(package, done))
