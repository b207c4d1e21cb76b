"""The lock next to a wheel as it is published: its own wheel is the published one.

The lock of a build names the wheel by its path next to the lock, which holds next to the published wheel, too. pip
reads such a path in a lock at any URL, uv only in a lock on disk. If the index's address is known, the lock names the
wheel by its URL, which both read.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import tomli_w
from packaging.pylock import Pylock, PylockValidationError

from cpuwheels.core.errors import PublishError, reason
from cpuwheels.core.parse import parse_toml
from cpuwheels.core.plain_file import read_plain
from cpuwheels.core.urls import without_userinfo
from cpuwheels.index.entry import Lock
from cpuwheels.index.layout import link, wheel_path
from cpuwheels.pipeline.pylock import FILE as LOCK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cpuwheels.index.entry import Entry

LARGEST = 16 << 20
"""Bytes of a lock; vLLM's have 500 KiB."""


def companion_lock(wheel: Path, entry: Entry, address: str | None = None) -> tuple[Lock, bytes] | None:
    """Return what an index says of the lock next to a wheel, and the lock's content; None if there is no lock.

    Args:
        wheel: The file.
        entry: What the index says of it.
        address: Where the users of the index reach it.

    Raises:
        PublishError: The address is none, or nobody else could install from the lock: it is damaged, of another wheel,
            or has files of this machine.
    """
    if address is not None and (urlsplit(address).scheme not in {"http", "https"} or not urlsplit(address).netloc):
        raise PublishError(
            f"{address!r} is no address of an index", where="--address", next_step="give its http:// or https:// URL"
        )
    path = wheel.with_name(LOCK)
    try:
        content = read_plain(path, LARGEST)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(path, str(error)) from error
    try:
        lock = parse_toml(content, path)
        Pylock.from_dict(lock).validate()
    except (ValueError, PylockValidationError) as error:
        raise _unusable(path, reason(error)) from error
    own = [file for file in _files(lock) if file.get("path") == wheel.name]
    if [file["hashes"].get("sha256") for file in own] != [entry.sha256]:
        raise _unusable(path, f"it is not the lock of {wheel.name} with sha256 {entry.sha256}")
    for file in _files(lock):
        if without_userinfo(str(file.get("url", ""))) != str(file.get("url", "")):
            raise _unusable(path, "it has a URL with a user name or a password in it")
        if file is not own[0] and urlsplit(file.get("url", "")).scheme not in {"http", "https"}:
            raise _unusable(path, f"it has {file.get('path') or file.get('url')}, which is on this machine alone")
    if address is not None:
        del own[0]["path"]
        own[0]["url"] = f"{without_userinfo(address).rstrip('/')}/{link('', wheel_path(entry))}"
        content = tomli_w.dumps(lock).encode()
    return Lock(sha256=hashlib.sha256(content).hexdigest(), by_url=address is not None), content


def _files(lock: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield everything that a lock installs from."""
    for package in lock["packages"]:
        yield from package.get("wheels", ())
        yield from (package[kind] for kind in ("sdist", "archive", "directory") if kind in package)


def _unusable(path: Path, why: str) -> PublishError:
    return PublishError(
        f"the lock next to the wheel cannot be published: {why}",
        where=path,
        next_step="build the wheel again, or remove the lock to publish the wheel without one",
    )
