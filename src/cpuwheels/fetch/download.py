"""Files by content: fetched from the first mirror that serves the pinned bytes, never seen half done."""

from __future__ import annotations

import os
import tempfile
import time
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.core.digests import SHA256, file_digest, text_digest
from cpuwheels.core.errors import DigestMismatchError, DownloadError
from cpuwheels.core.filesystem import link_or_copy, make_folders, storage_errors, sync_folder
from cpuwheels.core.limits import DOWNLOAD, FILE
from cpuwheels.core.usage import current_usage
from cpuwheels.fetch.file_names import is_file_name, url_file_name
from cpuwheels.fetch.http_stream import HttpFaultError, TooLargeError, http_answer
from cpuwheels.fetch.requests import current

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cpuwheels.core.limits import Patience
    from cpuwheels.core.store import Store

ATTEMPTS = 3
"""Attempts per mirror for faults that may pass: time-outs, broken connections, 5xx answers."""

_KIND = "downloads"
_CHUNK = 1 << 20
_OK, _SERVER_ERROR = 200, 500


@dataclass(frozen=True)
class Pinned:
    """A file to fetch.

    Attributes:
        name: What it is, for messages.
        urls: ``http(s)`` and ``file`` URLs that should serve the same bytes, in order.
        sha256: 64 hex digits; None accepts any bytes (its digest is then recorded by the caller).
        size: Bytes, if known; a mirror that sends more is left at that.
        file_name: Name that the file is to have, if not the one in the first URL.
        most: Bytes that it may have if they are not known.
    """

    name: str
    urls: tuple[str, ...]
    sha256: str | None
    size: int | None = None
    file_name: str = ""
    most: int = DOWNLOAD


def fetch(
    pinned: Pinned,
    store: Store,
    *,
    on_bytes: Callable[[int, int | None], None] | None = None,
    patience: Patience = FILE,
) -> Path:
    """Return the file from the store, fetching it first if it is not there.

    What is in the store is compared with the pinned digest at each use, whatever the store's manifest says.

    Args:
        pinned: What to fetch; its ``sha256`` is the store's key.
        store: Where it is kept; afterwards no network is needed.
        on_bytes: Called with (bytes so far, bytes in all or None).
        patience: How long a server is waited for.

    Raises:
        DownloadError: No mirror could serve it, or its name is not one for a file.
        DigestMismatchError: A mirror served other bytes than the pinned ones.
        StoreError: The store cannot be written.
    """
    if pinned.sha256 is None:
        raise ValueError(f"{pinned.name} has no digest to file it under")
    if not SHA256.fullmatch(pinned.sha256):
        raise ValueError(f"{pinned.name} has a digest that is no sha256")
    file_name = _file_name(pinned)

    def make(folder: Path) -> None:
        download(pinned, folder / file_name, on_bytes=on_bytes, patience=patience)

    first = _entry(store, pinned.sha256[:24], pinned.sha256, make)
    if first.name == file_name:
        return first
    # Whoever fetched it first gave it another name, which says something else of it.
    key = f"{pinned.sha256[:24]}-{text_digest(file_name)[:8]}"
    return _entry(store, key, pinned.sha256, lambda folder: link_or_copy(str(first), str(folder / file_name)))


def _entry(store: Store, key: str, sha256: str, make: Callable[[Path], None]) -> Path:
    """Return the file of an entry, after it was compared with the digest; a wrong one is made again."""
    for _ in range(2):
        path = _only_file(store.get(_KIND, key, make))
        if _has_digest(path, sha256):
            return path
        store.discard(_KIND, key, unless=lambda entry: _has_digest(_only_file(entry), sha256))
    raise DigestMismatchError(
        f"{path.name} in the store does not have the sha256 {sha256} that it was fetched with",
        where=path,
        next_step="find out what writes there",
    )


def _has_digest(path: Path, sha256: str) -> bool:
    try:
        return path.is_file() and not path.is_symlink() and file_digest(path) == sha256
    except OSError:
        return False


def is_stored(sha256: str, store: Store) -> bool:
    """Return whether `fetch` has a file already, without reading it back."""
    return store.path("downloads", sha256[:24]).is_dir()


def download(
    pinned: Pinned,
    target: Path,
    *,
    on_bytes: Callable[[int, int | None], None] | None = None,
    patience: Patience = FILE,
) -> str:
    """Write the file to ``target`` and return its sha256; nothing is left there if that fails.

    Raises:
        DownloadError: No mirror could serve it, or what came was shorter than announced.
        DigestMismatchError: A mirror served other bytes than the pinned ones.
        LockedError: The run is locked, and the list of its downloads does not have the file.
    """
    if requests := current():
        requests.file(pinned.name, pinned.sha256, pinned.urls[0])
    faults: list[str] = []
    mismatch: DigestMismatchError | None = None
    with storage_errors(target.parent):
        make_folders(target.parent)
        # A name of its own, and a folder's: two processes may fetch the same file, and one may be killed.
        with tempfile.TemporaryDirectory(prefix=".part-", dir=target.parent) as folder:
            part = Path(folder) / "part"
            for url in pinned.urls:
                try:
                    digest = _from_mirror(url, pinned, part, on_bytes, patience)
                except HttpFaultError as fault:
                    faults.append(f"{url}: {fault}")
                except DigestMismatchError as error:
                    mismatch = error
                else:
                    if _is_remote(url):
                        current_usage().file()
                    part.replace(target)
                    sync_folder(target.parent)
                    return digest
    if mismatch is not None:
        raise mismatch
    raise DownloadError(
        f"cannot fetch {pinned.name}",
        where=pinned.urls[0],
        output="\n".join(faults),
        next_step="check the network, or name a mirror (docs/mirrors.md)",
    )


def _from_mirror(
    url: str, pinned: Pinned, part: Path, on_bytes: Callable[[int, int | None], None] | None, patience: Patience
) -> str:
    most = pinned.most if pinned.size is None else pinned.size
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with storage_errors(part.parent), part.open("wb") as stream:
                for piece, done, total in _pieces(url, most, patience):
                    stream.write(piece)
                    if on_bytes is not None:
                        on_bytes(done, total)
                stream.flush()
                os.fsync(stream.fileno())
            break
        except TooLargeError as fault:
            if pinned.size is None:
                raise
            raise _other_bytes(pinned, str(fault), url) from fault
        except HttpFaultError as fault:
            if attempt == ATTEMPTS or not fault.passing:
                raise
            time.sleep(0.5 * 2**attempt)
    size, digest = part.stat().st_size, file_digest(part)
    if pinned.sha256 is None or digest == pinned.sha256:
        return digest
    if pinned.size is not None and size < pinned.size:
        raise HttpFaultError(f"truncated: {size} of {pinned.size} bytes")
    raise _other_bytes(pinned, f"sha256 {digest}", url)


def _other_bytes(pinned: Pinned, found: str, url: str) -> DigestMismatchError:
    return DigestMismatchError(
        f"{pinned.name} has {found}, pinned is {pinned.sha256}",
        where=url,
        next_step="if the file was published anew on purpose, check it and correct the pin; else do not use it",
    )


def _pieces(url: str, most: int, patience: Patience) -> Iterator[tuple[bytes, int, int | None]]:
    """Yield a file in pieces, with each the bytes so far and in all."""
    if not _is_remote(url):
        yield from _copied(url, most)
        return
    with http_answer(url, most=most, patience=patience) as (head, content):
        if head.status != _OK:
            raise HttpFaultError(f"HTTP status {head.status}", passing=head.status >= _SERVER_ERROR)
        announced = head.headers.get("content-length")
        total, done = int(announced) if announced else None, 0
        for piece in content:
            done += len(piece)
            yield piece, done, total


def _is_remote(url: str) -> bool:
    return url.startswith(("http://", "https://"))


def _copied(url: str, most: int) -> Iterator[tuple[bytes, int, int | None]]:
    if "://" in url and not url.startswith("file://"):
        raise HttpFaultError("neither an http(s) nor a file URL")
    path = Path(urllib.request.url2pathname(urllib.parse.urlsplit(url).path)) if "://" in url else Path(url)
    if not path.is_file():
        raise HttpFaultError(f"no file {path}")
    try:
        with path.open("rb") as source:
            total, done = os.fstat(source.fileno()).st_size, 0
            while piece := source.read(_CHUNK):
                done += len(piece)
                if done > most:
                    raise TooLargeError(f"more than {most} bytes")
                yield piece, done, total
    except OSError as error:
        raise HttpFaultError(f"{path}: {error.strerror}") from error


def _file_name(pinned: Pinned) -> str:
    try:
        name = pinned.file_name or url_file_name(pinned.urls[0]) or "file"
    except ValueError:  # no URL, which is reported where it is asked
        name = "file"
    if not is_file_name(name):
        raise DownloadError(
            f"{name!r} is not a name for the file of {pinned.name}",
            where=pinned.urls[0],
            next_step="do not use this index, or tell whoever runs it",
        )
    return name


def _only_file(entry: Path) -> Path:
    """Return the file in an entry; the entry itself, which is no file, if there is none."""
    try:
        return next((path for path in sorted(entry.iterdir()) if not path.name.startswith(".")), entry)
    except FileNotFoundError:  # another process has just taken the entry out
        return entry


def mirrored(path: str, mirrors: Sequence[str]) -> tuple[str, ...]:
    """Return the URLs of one path on several mirrors."""
    return tuple(f"{mirror.rstrip('/')}/{path}" for mirror in mirrors)
