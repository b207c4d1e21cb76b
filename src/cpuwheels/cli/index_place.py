"""An index on the command line: ``--index PLACE``, which is its folder, ``s3://bucket/prefix`` or its web address.

Commands that write take the first two. Commands that read and run upstream's code have no credentials: they take its
web address, or its folder, which is served to them on this machine for as long as they run.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from cpuwheels.config.installation import command_line
from cpuwheels.core.errors import PublishError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from cpuwheels.index.bucket import Bucket

WRITTEN = "Index: its folder or s3://bucket/prefix (default: dist/index)."
READ = "Index: its web address or its folder"

_WEB = frozenset({"http", "https"})


def index_option(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the option.

    Args:
        text: Its help: which places the command takes, and what for.
    """
    return click.option("--index", metavar="PLACE", help=text)


def index_folder(place: str) -> Path:
    """Return the folder of an index.

    Raises:
        UsageError: It is at an address.
    """
    parts = urlsplit(place)
    if parts.scheme not in {"", "file"}:
        raise UsageError(
            f"{place!r:.200} is no folder", where="--index", next_step="give the folder that the index is kept in"
        )
    return Path(parts.path if parts.scheme else place).expanduser().resolve()


def open_existing(place: str) -> Bucket:
    """Return the bucket of an index; no folder is made.

    Raises:
        UsageError: It is neither a folder nor a bucket.
        PublishError: The folder is not there, or has no index.
    """
    from cpuwheels.index.address import open_bucket

    if urlsplit(place).scheme in {"", "file"} and not (index_folder(place) / "index.json").is_file():
        raise _no_index(index_folder(place))
    return open_bucket(place)


def _no_index(folder: Path) -> PublishError:
    step = f"publish a wheel into it first: {command_line('publish', '', 'WHEEL')}; or name another with --index"
    return PublishError("there is no index: index.json is missing", where=folder, next_step=step)


@contextlib.contextmanager
def web_address(place: str) -> Iterator[str]:
    """Yield the address at which an index is read; one in a folder is served there meanwhile.

    Raises:
        UsageError: It is in a bucket.
        PublishError: The folder has no index.
    """
    scheme = urlsplit(place).scheme
    if scheme in _WEB:
        yield place.rstrip("/")
        return
    if scheme not in {"", "file"}:
        raise UsageError(
            f"{place!r:.200} is neither a web address nor a folder",
            where="--index",
            next_step="give the address at which the index is read: this command has no credentials for a bucket",
        )
    from cpuwheels.index.serve import HOST, IndexServer

    folder = index_folder(place)
    if not (folder / "index.json").is_file():
        raise _no_index(folder)
    with IndexServer(folder, 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        try:
            yield f"http://{HOST}:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
