"""The certificates of a farm: made by one command, and the same for its scheduler, workers and clients.

Whoever has them can run programs on each of its machines, as its user: dask.distributed has no lesser rights.
"""

from __future__ import annotations

import os
import ssl
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from distributed.security import Security

from cpuwheels.attestation.keys import PUBLIC, make_key
from cpuwheels.core.errors import FarmError
from cpuwheels.core.filesystem import storage_errors

if TYPE_CHECKING:
    from pathlib import Path

CERTIFICATE, PRIVATE, SIGNING = "farm.pem", "farm.key", "kernels.key"
"""Files: a certificate that is its own authority, its private key, and the key that signs kernels which are carried."""

FILES = (CERTIFICATE, PRIVATE, SIGNING, f"{SIGNING}{PUBLIC}")
"""What each machine of a farm needs of them; the last one is what signatures are verified with."""

NAME = "cpuwheels-farm"
"""Who the certificate is about. dask compares no names: whoever has the private key is of the farm."""

VALID, SLOW_CLOCKS = timedelta(days=365), timedelta(days=1)
"""For how long certificates are valid, and how far behind the clock of another machine may be when they are new."""


def make_certificates(folder: Path) -> list[Path]:
    """Make the certificates of a farm and return their files; only this user can read them.

    Args:
        folder: Made if it is not there.

    Raises:
        FarmError: It has some already.
        StoreError: It cannot be written.
    """
    if taken := [name for name in FILES if os.path.lexists(folder / name)]:
        raise FarmError(
            f"{taken[0]} is there already",
            where=folder,
            next_step="give another folder, or remove it: whoever has the old certificates is then left out",
        )
    certificate, private = _self_signed(datetime.now(UTC))
    with storage_errors(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, content in ((CERTIFICATE, certificate), (PRIVATE, private)):
            handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
    make_key(folder / SIGNING)
    return [folder / name for name in FILES]


def _self_signed(now: datetime) -> tuple[bytes, bytes]:
    """Return a certificate that is its own authority and its private key, as PEM.

    ``Security.temporary`` of dask makes one that is valid from this moment, which is to come where a clock is slow.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    public = key.public_key()
    may = dict.fromkeys(("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False)
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=False, encipher_only=False, decipher_only=False, **may
    )
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SLOW_CLOCKS)
        .not_valid_after(now + VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return made.public_bytes(Encoding.PEM), private


def read_certificates(folder: Path) -> Security:
    """Return the certificates of a farm.

    Raises:
        FarmError: The folder does not have them, or others can read the private key.
    """
    certificate, private = folder / CERTIFICATE, folder / PRIVATE
    if missing := [name for name in FILES if not (folder / name).is_file()]:
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
