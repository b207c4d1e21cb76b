"""Files by content: fetched from the first mirror that serves the pinned bytes, never seen half done."""

from __future__ import annotations

import os
import shutil
import time
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import DigestMismatchError, DownloadError
from cpuwheels.core.filesystem import storage_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cpuwheels.core.store import Store

ATTEMPTS = 3
"""Attempts per mirror for faults that may pass: time-outs, broken connections, 5xx answers."""

_SECONDS, _CONNECT_SECONDS = 30, 15
_CHUNK = 1 << 18
# The bytes are pinned as they lie on the server, which must not compress them for the transfer.
_HEADERS = {"Accept-Encoding": "identity"}


@dataclass(frozen=True)
class Pinned:
    """A file to fetch.

    Attributes:
        name: What it is, for messages.
        urls: ``http(s)`` and ``file`` URLs that should serve the same bytes, in order.
        sha256: 64 hex digits; None accepts any bytes (its digest is then recorded by the caller).
        size: Bytes, if known.
    """

    name: str
    urls: tuple[str, ...]
    sha256: str | None
    size: int | None = None


def fetch(pinned: Pinned, store: Store, *, on_bytes: Callable[[int, int | None], None] | None = None) -> Path:
    """Return the file from the store, fetching it first if it is not there.

    Args:
        pinned: What to fetch; its ``sha256`` is the store's key.
        store: Where it is kept; afterwards no network is needed.
        on_bytes: Called with (bytes so far, bytes in all or None).

    Raises:
        DownloadError: No mirror could serve it, or what came was shorter than announced.
        DigestMismatchError: A mirror served other bytes than the pinned ones.
        StoreError: The store cannot be written.
    """
    if pinned.sha256 is None:
        raise ValueError(f"{pinned.name} has no digest to file it under")
    file_name = _file_name(pinned.urls[0])

    def make(folder: Path) -> None:
        download(pinned, folder / file_name, on_bytes=on_bytes)

    entry = store.get("downloads", pinned.sha256[:24], make)
    return entry / file_name if (entry / file_name).is_file() else _only_file(entry)


def is_stored(sha256: str, store: Store) -> bool:
    """Return whether `fetch` has a file already, without reading it back."""
    return store.path("downloads", sha256[:24]).is_dir()


def download(pinned: Pinned, target: Path, *, on_bytes: Callable[[int, int | None], None] | None = None) -> str:
    """Write the file to ``target`` and return its sha256; nothing is left there if that fails.

    Raises:
        DownloadError: No mirror could serve it, or what came was shorter than announced.
        DigestMismatchError: A mirror served other bytes than the pinned ones.
    """
    faults: list[str] = []
    mismatch: DigestMismatchError | None = None
    part = target.with_name(f".{target.name}.part")
    with storage_errors(part.parent):
        part.parent.mkdir(parents=True, exist_ok=True)
    for url in pinned.urls:
        try:
            digest = _from_mirror(url, pinned, part, on_bytes)
        except _MirrorFaultError as fault:
            faults.append(f"{url}: {fault}")
        except DigestMismatchError as error:
            mismatch = error
        else:
            part.replace(target)
            return digest
        finally:
            part.unlink(missing_ok=True)
    if mismatch is not None:
        raise mismatch
    raise DownloadError(
        f"cannot fetch {pinned.name}",
        where=pinned.urls[0],
        output="\n".join(faults),
        next_step="check the network, or name a mirror (docs/mirrors.md)",
    )


class _MirrorFaultError(Exception):
    """One mirror failed; another may work."""


def _from_mirror(url: str, pinned: Pinned, part: Path, on_bytes: Callable[[int, int | None], None] | None) -> str:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            if url.startswith(("http://", "https://")):
                _stream(url, part, on_bytes)
            else:
                _copy(url, part)
            break
        except _PassingFaultError as fault:
            if attempt == ATTEMPTS:
                raise _MirrorFaultError(str(fault)) from fault
            time.sleep(0.5 * 2**attempt)
    size, digest = part.stat().st_size, file_digest(part)
    if pinned.sha256 is None or digest == pinned.sha256:
        return digest
    if pinned.size is not None and size < pinned.size:
        raise _MirrorFaultError(f"truncated: {size} of {pinned.size} bytes")
    raise DigestMismatchError(
        f"{pinned.name} has sha256 {digest}, pinned is {pinned.sha256}",
        where=url,
        next_step="if the file was published anew on purpose, check it and correct the pin; else do not use it",
    )


class _PassingFaultError(Exception):
    """A fault that may be gone on the next try."""


def _stream(url: str, part: Path, on_bytes: Callable[[int, int | None], None] | None) -> None:
    import httpx  # noqa: PLC0415  (slow to import, and often not needed)

    timeout = httpx.Timeout(_SECONDS, connect=_CONNECT_SECONDS)
    try:
        with httpx.stream("GET", url, headers=_HEADERS, follow_redirects=True, timeout=timeout) as answer:
            if answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
                raise _PassingFaultError(f"HTTP status {answer.status_code}")
            if answer.status_code != httpx.codes.OK:
                raise _MirrorFaultError(f"HTTP status {answer.status_code}")
            announced = answer.headers.get("content-length")
            total = int(announced) if announced else None
            with storage_errors(part.parent), part.open("wb") as stream:
                for chunk in answer.iter_raw(_CHUNK):
                    stream.write(chunk)
                    if on_bytes is not None:
                        on_bytes(answer.num_bytes_downloaded, total)
                _flush(stream)
            if total is not None and answer.num_bytes_downloaded != total:
                raise _PassingFaultError(f"truncated: {answer.num_bytes_downloaded} of {total} bytes")
    except httpx.ConnectError as error:
        # No route or no such host does not pass within seconds; asking again would only delay the next mirror.
        raise _MirrorFaultError(f"no connection: {error}") from error
    except httpx.TransportError as error:
        raise _PassingFaultError(f"{type(error).__name__}: {error}") from error
    except httpx.InvalidURL as error:
        raise _MirrorFaultError(f"not a URL: {error}") from error
    except httpx.TooManyRedirects as error:
        raise _MirrorFaultError(str(error)) from error


def _copy(url: str, part: Path) -> None:
    if "://" in url and not url.startswith("file://"):
        raise _MirrorFaultError("neither an http(s) nor a file URL")
    path = Path(urllib.request.url2pathname(urllib.parse.urlsplit(url).path)) if "://" in url else Path(url)
    if not path.is_file():
        raise _MirrorFaultError(f"no file {path}")
    with storage_errors(part.parent):
        shutil.copyfile(path, part)


def _flush(stream: IO[bytes]) -> None:
    stream.flush()
    os.fsync(stream.fileno())


def _file_name(url: str) -> str:
    return urllib.parse.unquote(urllib.parse.urlsplit(url).path.rsplit("/", 1)[-1]) or "file"


def _only_file(entry: Path) -> Path:
    return next(path for path in sorted(entry.iterdir()) if not path.name.startswith("."))


def mirrored(path: str, mirrors: Sequence[str]) -> tuple[str, ...]:
    """Return the URLs of one path on several mirrors."""
    return tuple(f"{mirror.rstrip('/')}/{path}" for mirror in mirrors)
