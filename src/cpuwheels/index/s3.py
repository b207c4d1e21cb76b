"""An index in a bucket that speaks S3.

A publisher claims the index with an object that only one can write, and that is valid for a limited time by the
server's clock. A claim that has expired may be taken over while its holder still works. So a page is only written if
nobody has changed it since this publisher has seen it (``If-Match``), and only as long as the claim is its own.
"""

from __future__ import annotations

import mimetypes
import os
import socket
import time
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import S3Store
from pydantic import ValidationError

from cpuwheels.core.errors import UsageError
from cpuwheels.core.models import Strict
from cpuwheels.index.bucket import HIDDEN, LOCK, WAIT_SECONDS, Bucket
from cpuwheels.index.layout import FILES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from obstore import PutMode

LEASE_SECONDS = 900.0
"""How long a publisher's claim on a bucket is valid without renewal. Uploading a wheel takes a part of it."""

CLOCK = f"{HIDDEN}.clock"
"""Object that is written to learn the server's time."""

_LOOK_SECONDS = 1.0
_TYPES = {".whl": "application/zip", ".metadata": "text/plain; charset=utf-8", ".html": "text/html; charset=utf-8"}
_PAGE_AGE, _FILE_AGE = "max-age=60", "max-age=31536000, immutable"


class _Claim(Strict):
    """The content of the object that claims the index."""

    owner: str = ""
    """Empty if nobody holds the index."""
    token: int = 0
    """How many claims there were: a later one has a greater number."""
    renewed: int = 0

    @property
    def content(self) -> bytes:
        return self.model_dump_json().encode()

    @classmethod
    def read(cls, content: bytes) -> _Claim:
        """Return the claim of an object; somebody's unknown, if it is damaged or of an earlier version."""
        try:
            return cls.model_validate_json(content)
        except ValidationError:
            return cls(owner="unknown")


@dataclass(frozen=True)
class _Held:
    """This publisher's claim.

    Attributes:
        tag: E-tag of the object.
        token: Its number.
        since: When it was written, by this machine's monotonic clock.
        renewed: How often.
    """

    tag: str
    token: int
    since: float
    renewed: int = 0


class S3Bucket(Bucket):
    """An index in a bucket that speaks S3; credentials and endpoint are found as AWS's own tools find them.

    Args:
        address: ``s3://bucket/prefix``.
        environ: For ``AWS_ENDPOINT_URL``; everything else obstore reads itself.

    Raises:
        UsageError: The address names no bucket.
    """

    def __init__(self, address: str, environ: Mapping[str, str] = os.environ) -> None:
        parts = urlsplit(address)
        if not parts.netloc:
            raise UsageError(f"{address} names no bucket", where="--index", next_step="give s3://bucket/prefix")
        endpoint = environ.get("AWS_ENDPOINT_URL", "")
        store = S3Store(
            parts.netloc,
            prefix=parts.path.strip("/") or None,
            client_options={"allow_http": endpoint.startswith("http://")},
            config={"endpoint": endpoint} if endpoint else {},
        )
        super().__init__(address)
        self._store = store
        self._owner = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex}"
        self._held: _Held | None = None
        self._seen: dict[str, str | None] = {}

    @contextmanager
    def alone(self, wait: float = WAIT_SECONDS) -> Iterator[None]:
        """Hold the index for this publisher with an object that others see; it is valid for `LEASE_SECONDS`."""
        end = time.monotonic() + wait
        while not self._claim():
            if time.monotonic() >= end:
                raise self._busy()
            time.sleep(_LOOK_SECONDS)
        try:
            yield
        finally:
            self._release()

    def read(self, path: str) -> bytes | None:
        """Return a file's content; None if it is not there."""
        try:
            found = self._store.get(path)
            content = bytes(found.bytes())
        except FileNotFoundError:
            self._seen[path] = None
            return None
        except (BaseError, OSError) as error:
            raise self._broken("read", path, error) from error
        self._seen[path] = found.meta["e_tag"]
        return content

    def write(self, path: str, content: bytes) -> None:
        """Write a file, replacing the one that was last seen here, and no other.

        Raises:
            PublishError: It cannot be written, or another publisher has changed it or taken over.
        """
        # In this order: what is seen now was there while this claim was valid.
        tag = self._tag(path)
        self._require_claim()
        mode: PutMode = "create" if tag is None else {"e_tag": tag}
        try:
            made = self._store.put(path, content, mode=mode, use_multipart=False, attributes=self._attributes(path))
        except (AlreadyExistsError, PreconditionError) as error:
            raise self._busy() from error
        except (BaseError, OSError) as error:
            if tag is not None and isinstance(error, FileNotFoundError):
                raise self._busy() from error
            raise self._broken("write", path, error) from error
        self._seen[path] = made["e_tag"]

    def add(self, path: str, content: bytes | Path) -> bool:
        """Write a file unless it exists, and return whether it was written."""
        self._require_claim()
        self._seen.pop(path, None)
        try:
            self._store.put(path, content, mode="create", use_multipart=False, attributes=self._attributes(path))
        except AlreadyExistsError:
            return False
        except (BaseError, OSError) as error:
            raise self._broken("write", path, error) from error
        return True

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        self._require_claim()
        self._seen.pop(path, None)
        try:
            self._store.delete(path)
        except FileNotFoundError:
            return
        except (BaseError, OSError) as error:
            raise self._broken("remove", path, error) from error

    def names(self, prefix: str = "") -> list[str]:
        """Return the paths of all files below a folder, sorted."""
        try:
            found = [entry["path"] for page in self._store.list(prefix or None) for entry in page]
        except (BaseError, OSError) as error:
            raise self._broken("list", prefix, error) from error
        return sorted(name for name in found if not name.startswith(HIDDEN))

    def _tag(self, path: str) -> str | None:
        """Return the e-tag of a file as it was last seen; None if it was not there."""
        if path not in self._seen:
            try:
                self._seen[path] = self._store.head(path)["e_tag"]
            except FileNotFoundError:
                self._seen[path] = None
            except (BaseError, OSError) as error:
                raise self._broken("read", path, error) from error
        return self._seen[path]

    def _claim(self) -> bool:
        """Return whether the index is now held: nobody held it, or the holder's claim has expired."""
        try:
            try:
                found = self._store.get(LOCK)
            except FileNotFoundError:
                return self._take("create", 1)
            holder, tag = _Claim.read(bytes(found.bytes())), found.meta["e_tag"]
            if tag is None:
                return False
            if holder.owner and self._server_time() - found.meta["last_modified"] <= timedelta(seconds=LEASE_SECONDS):
                return False
            return self._take({"e_tag": tag}, holder.token + 1)
        except (AlreadyExistsError, PreconditionError, FileNotFoundError):
            return False  # released or claimed just now
        except (BaseError, OSError) as error:
            raise self._broken("claim", LOCK, error) from error

    def _take(self, mode: PutMode, token: int) -> bool:
        made = self._store.put(LOCK, _Claim(owner=self._owner, token=token).content, mode=mode)
        self._held = _Held(str(made["e_tag"]), token, time.monotonic())
        self._seen = {}
        return True

    def _release(self) -> None:
        """Give up the claim, unless another one has it by now; the number of claims stays."""
        held, self._held = self._held, None
        if held is not None:
            with suppress(BaseError, OSError):  # it expires by itself
                self._store.put(LOCK, _Claim(token=held.token).content, mode={"e_tag": held.tag})

    def _server_time(self) -> datetime:
        """Return the time by the server's clock, which is also that of the claims; those of publishers may differ."""
        self._store.put(CLOCK, self._owner.encode())
        return self._store.head(CLOCK)["last_modified"]

    def _require_claim(self) -> None:
        """See that the claim is still this publisher's, and renew it before it expires.

        Raises:
            PublishError: Another publisher has taken over.
        """
        held = self._held
        if held is None:
            return
        try:
            if time.monotonic() - held.since > LEASE_SECONDS / 2:
                self._take_again(held)
            elif self._store.head(LOCK)["e_tag"] != held.tag:
                raise self._busy()
        except (BaseError, OSError) as error:
            raise self._busy() from error

    def _take_again(self, held: _Held) -> None:
        claim = _Claim(owner=self._owner, token=held.token, renewed=held.renewed + 1)
        made = self._store.put(LOCK, claim.content, mode={"e_tag": held.tag})
        self._held = _Held(str(made["e_tag"]), held.token, time.monotonic(), claim.renewed)

    def _attributes(self, path: str) -> dict[str, str]:
        """Return a file's headers for web servers."""
        suffix = Path(path).suffix
        kind = _TYPES.get(suffix) or mimetypes.guess_type(path)[0] or "application/octet-stream"
        age = _FILE_AGE if path.startswith(FILES) else _PAGE_AGE
        return {"Content-Type": kind, "Cache-Control": age}
