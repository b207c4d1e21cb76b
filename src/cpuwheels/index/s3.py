"""An index in a bucket that speaks S3.

A publisher announces its work with an object that is only created if it does not exist, and that is valid for a limited
time.
"""

from __future__ import annotations

import json
import mimetypes
import os
import socket
import time
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import S3Store

from cpuwheels.core.errors import PublishError
from cpuwheels.index.bucket import LOCK, WAIT_SECONDS, Bucket
from cpuwheels.index.layout import FILES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LEASE_SECONDS = 900.0
"""How long a publisher's claim on a bucket is valid without renewal. Uploading a wheel takes a part of it."""

_LOOK_SECONDS = 1.0
_TYPES = {".whl": "application/zip", ".metadata": "text/plain; charset=utf-8", ".html": "text/html; charset=utf-8"}
_PAGE_AGE, _FILE_AGE = "max-age=60", "max-age=31536000, immutable"


class S3Bucket(Bucket):
    """An index in a bucket that speaks S3; credentials and endpoint are found as AWS's own tools find them.

    Args:
        address: ``s3://bucket/prefix``.
        environ: For ``AWS_ENDPOINT_URL``; everything else obstore reads itself.

    Raises:
        PublishError: The address names no bucket.
    """

    def __init__(self, address: str, environ: Mapping[str, str] = os.environ) -> None:
        parts = urlsplit(address)
        if not parts.netloc:
            raise PublishError(f"{address} names no bucket", where="--index", next_step="give s3://bucket/prefix")
        endpoint = environ.get("AWS_ENDPOINT_URL", "")
        store = S3Store(
            parts.netloc,
            prefix=parts.path.strip("/") or None,
            endpoint=endpoint or None,
            client_options={"allow_http": endpoint.startswith("http://")},
        )
        super().__init__(address, store)
        self._owner = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex}"
        self._claimed: tuple[float, str] | None = None  # until when, and the claim's e-tag

    @contextmanager
    def alone(self, wait: float = WAIT_SECONDS) -> Iterator[None]:
        """Hold the index for this publisher with an object that others see; it is valid for `LEASE_SECONDS`."""
        end = time.time() + wait
        while not self._claim():
            if time.time() >= end:
                raise self._busy()
            time.sleep(_LOOK_SECONDS)
        try:
            yield
        finally:
            self._claimed = None
            claim = self.read(LOCK)
            if claim is not None and json.loads(claim)["owner"] == self._owner:
                self.remove(LOCK)

    def write(self, path: str, content: bytes) -> None:
        """Write a file, replacing an existing one."""
        self._renew()
        super().write(path, content)

    def add(self, path: str, content: bytes | Path) -> bool:
        """Write a file unless it exists, and return whether it was written."""
        self._renew()
        return super().add(path, content)

    def _claim(self) -> bool:
        """Return whether the index is now held: nobody held it, or the holder's claim has expired."""
        until = time.time() + LEASE_SECONDS
        claim = json.dumps({"owner": self._owner, "until": until}).encode()
        try:
            try:
                made = self._store.put(LOCK, claim, mode="create")
            except AlreadyExistsError:
                found = self._store.get(LOCK)
                tag = found.meta["e_tag"]
                if json.loads(bytes(found.bytes()))["until"] > time.time() or tag is None:
                    return False
                made = self._store.put(LOCK, claim, mode={"e_tag": tag})
        except (FileNotFoundError, PreconditionError):
            return False  # released or claimed just now
        except (BaseError, OSError, ValueError, KeyError) as error:
            raise self._broken("claim", LOCK, error) from error
        self._claimed = until, str(made["e_tag"])
        return True

    def _renew(self) -> None:
        """Renew the claim before it expires.

        Raises:
            PublishError: Another publisher has taken over.
        """
        if self._claimed is None or self._claimed[0] - time.time() > LEASE_SECONDS / 2:
            return
        until = time.time() + LEASE_SECONDS
        claim = json.dumps({"owner": self._owner, "until": until}).encode()
        try:
            made = self._store.put(LOCK, claim, mode={"e_tag": self._claimed[1]})
        except (BaseError, OSError) as error:
            raise self._busy() from error
        self._claimed = until, str(made["e_tag"])

    def _attributes(self, path: str) -> dict[str, str] | None:
        suffix = Path(path).suffix
        kind = _TYPES.get(suffix) or mimetypes.guess_type(path)[0] or "application/octet-stream"
        age = _FILE_AGE if path.startswith(FILES) else _PAGE_AGE
        return {"Content-Type": kind, "Cache-Control": age}
