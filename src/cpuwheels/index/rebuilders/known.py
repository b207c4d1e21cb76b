"""The rebuilders that somebody relies on, with their keys: two with one key would be one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.attestation.keys import key_of
from cpuwheels.config.rebuilders import Rebuilders
from cpuwheels.core.errors import MatrixError, ProvenanceError
from cpuwheels.core.models import load_yaml

if TYPE_CHECKING:
    from pathlib import Path

    from securesystemslib.signer import Key


@dataclass(frozen=True)
class KnownRebuilder:
    """A rebuilder.

    Attributes:
        name: For people.
        url: Of its site, without a slash at the end.
        keys: Its keys.
    """

    name: str
    url: str
    keys: tuple[Key, ...]


def read_rebuilders(path: Path) -> tuple[KnownRebuilder, ...]:
    """Return the rebuilders of a ``rebuilders.yaml``.

    Raises:
        MatrixError: It cannot be read, a key is none, or two rebuilders have the same key.
    """
    found = []
    owners: dict[str, str] = {}
    for one in load_yaml(path, Rebuilders).rebuilders:
        try:
            keys = tuple(key_of(pem.encode(), f"{path}: {one.name}") for pem in one.keys)
        except ProvenanceError as error:
            raise MatrixError(error.what, where=error.where, next_step=error.next_step) from error
        for key in keys:
            owner = owners.setdefault(key.keyid, one.name)
            if owner != one.name:
                raise MatrixError(
                    f"{owner} and {one.name} have the same key {key.keyid}, so they are one rebuilder",
                    where=path,
                    next_step="take one of them out, or ask them for a key of their own",
                )
        found.append(KnownRebuilder(one.name, one.url.rstrip("/"), keys))
    return tuple(found)
