"""Keys that sign statements: a file, or a key that a service or a device keeps, as securesystemslib names them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.config.installation import command_line
from cpuwheels.core.errors import ProvenanceError
from cpuwheels.core.filesystem import storage_errors
from cpuwheels.core.plain_file import read_plain

if TYPE_CHECKING:
    from securesystemslib.signer import Key, Signer

PUBLIC = ".pub"
"""After the name of a private key's file: its public key."""

_LARGEST = 64 << 10


def make_key(path: Path) -> Path:
    """Make a key (Ed25519) and return the file of its public key.

    Args:
        path: Of the private key; nobody else can read the file, nor its folder if that is made for it.

    Raises:
        ProvenanceError: There is a file of that name already.
        StoreError: It cannot be written.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415  (the extra)
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat  # noqa: PLC0415

    key = Ed25519PrivateKey.generate()
    public = path.with_name(f"{path.name}{PUBLIC}")
    parts = (
        (path, 0o600, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())),
        (public, 0o644, key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)),
    )
    if taken := [one for one, _, _ in parts if os.path.lexists(one)]:
        raise _taken(taken[0])
    with storage_errors(path, next_step="give a file in a folder in which you may write"):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for file, mode, content in parts:
            try:
                handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
            except FileExistsError as error:
                raise _taken(file) from error
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
    return public


def public_key(path: Path) -> Key:
    """Return the public key of a file (PEM).

    Raises:
        ProvenanceError: It cannot be read, or is not a public key that can verify statements.
    """
    try:
        content = read_plain(os.path.realpath(path), _LARGEST)
    except OSError as error:
        raise ProvenanceError(
            f"the public key cannot be read: {error.strerror}", where=path, next_step="name the file of a public key"
        ) from error
    return key_of(content, path)


def key_of(content: bytes, where: str | Path) -> Key:
    """Return a public key (PEM).

    Args:
        content: The key.
        where: What has it, for messages.

    Raises:
        ProvenanceError: It is not a public key that can verify statements.
    """
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: PLC0415
    from securesystemslib.signer import SSlibKey  # noqa: PLC0415

    try:
        return SSlibKey.from_crypto(load_pem_public_key(content))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ProvenanceError(
            f"it is not a public key that can verify statements: {error}",
            where=where,
            next_step="name a public key as PEM (SubjectPublicKeyInfo): Ed25519, ECDSA or RSA",
        ) from error


def open_signer(key: str, public: Path | None) -> Signer:
    """Return what signs with a key.

    Args:
        key: File of a private key (PEM), or a URI of securesystemslib, such as ``gcpkms:…`` or ``awskms:…``.
        public: File of its public key; that next to the private one if not given.

    Raises:
        ProvenanceError: There is no such key, it cannot be used, or the public key is another one's.
    """
    from securesystemslib.signer import SIGNER_FOR_URI_SCHEME, Signer  # noqa: PLC0415

    scheme = key.partition(":")[0]
    is_uri = scheme in SIGNER_FOR_URI_SCHEME
    if public is None and is_uri:
        raise ProvenanceError(
            f"the public key of {scheme}: is not known",
            where="--public-key",
            next_step="name the file of its public key",
        )
    file = Path(key)
    if not is_uri and not (key and file.exists()):
        make = command_line("make-key", "", "FILE")
        raise ProvenanceError(
            "the key is not there",
            where=file if key else "--key",
            next_step=f"name a private key's file; {make} makes one",
        )
    known = public_key(public or file.with_name(f"{file.name}{PUBLIC}"))
    try:
        return Signer.from_priv_key_uri(key if is_uri else f"file2:{_private(file)}", known)
    except Exception as error:  # services and devices have errors of their own, as securesystemslib says
        raise unusable_key(error) from error


def unusable_key(error: Exception) -> ProvenanceError:
    """Return the error for a key that does not sign."""
    said = " ".join(map(str, error.args)) or type(error).__name__
    return ProvenanceError(
        f"the key cannot sign: {said.splitlines()[0]}",
        where="--key",
        next_step="name a private key's file, made with make-key, or a URI of securesystemslib",
    )


def _private(file: Path) -> str:
    """Return the absolute path of a private key that nobody else can read."""
    found = file.absolute()
    if found.stat().st_mode & 0o077:
        msg = f"{file} can be read by other users of this machine: chmod 600 {file}"
        raise PermissionError(msg)
    return str(found)


def _taken(path: Path) -> ProvenanceError:
    return ProvenanceError(f"{path.name} is there already", where=path, next_step="give another name")
