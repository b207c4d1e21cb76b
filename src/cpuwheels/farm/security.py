"""The certificates of a farm: made by one command, and the same for its scheduler, workers and clients.

Whoever has them can run programs on each of its machines, as its user: dask.distributed has no lesser rights.
"""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING

from distributed.security import Security

from cpuwheels.attestation.keys import PUBLIC, make_key
from cpuwheels.core.errors import FarmError
from cpuwheels.core.filesystem import storage_errors

if TYPE_CHECKING:
    from pathlib import Path

CERTIFICATE, PRIVATE, SIGNING = "farm.pem", "farm.key", "kernels.key"
"""Files: a certificate that is its own authority, its private key, and the key that signs kernels which are carried."""


def make_certificates(folder: Path) -> list[Path]:
    """Make the certificates of a farm and return their files; only this user can read them.

    Args:
        folder: Made if it is not there.

    Raises:
        FarmError: It has some already.
        StoreError: It cannot be written.
    """
    names = (CERTIFICATE, PRIVATE, SIGNING, f"{SIGNING}{PUBLIC}")
    if taken := [name for name in names if os.path.lexists(folder / name)]:
        raise FarmError(
            f"{taken[0]} is there already",
            where=folder,
            next_step="give another folder, or remove it: whoever has the old certificates is then left out",
        )
    made = Security.temporary()
    with storage_errors(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, text in ((CERTIFICATE, made.tls_client_cert), (PRIVATE, made.tls_client_key)):
            handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "w", encoding="ascii") as stream:
                stream.write(text)
    make_key(folder / SIGNING)
    return [folder / name for name in names]


def read_certificates(folder: Path) -> Security:
    """Return the certificates of a farm.

    Raises:
        FarmError: The folder does not have them, or others can read the private key.
    """
    certificate, private = folder / CERTIFICATE, folder / PRIVATE
    missing = [path.name for path in (certificate, private, folder / SIGNING) if not path.is_file()]
    if missing:
        raise FarmError(
            f"there is no {missing[0]}",
            where=folder,
            next_step="make certificates with cpuwheels farm keys, and copy the folder to every machine of the farm",
        )
    if private.stat().st_mode & 0o077:
        raise FarmError(
            f"others can read {private.name}", where=folder, next_step=f"take that right away: chmod 600 {private}"
        )
    name = str(certificate)
    return Security(
        require_encryption=True,
        tls_ca_file=name,
        tls_client_cert=name,
        tls_client_key=str(private),
        tls_scheduler_cert=name,
        tls_scheduler_key=str(private),
        tls_worker_cert=name,
        tls_worker_key=str(private),
        tls_min_version=ssl.TLSVersion.TLSv1_3,
    )
