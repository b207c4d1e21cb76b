"""The files about a wheel that lie next to it: its statement, and signatures of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.errors import ProvenanceError
from cpuwheels.core.plain_file import read_plain
from cpuwheels.pipeline.slsa import SUFFIX

if TYPE_CHECKING:
    from pathlib import Path

ENVELOPE = ".intoto.jsonl"
"""The statement in an envelope (DSSE), signed with a key: one JSON object on one line."""

SLSA_ATTESTATION, PUBLISH_ATTESTATION = ".slsa.attestation", ".publish.attestation"
"""Attestations of an identity (PEP 740), as the program of pypi-attestations names them."""

PROVENANCE = ".provenance"
"""The attestations of a wheel in one object (PEP 740), as an index serves them."""

SUFFIXES = (SUFFIX, ENVELOPE, SLSA_ATTESTATION, PUBLISH_ATTESTATION)
"""Of the files that signing leaves next to a wheel."""

LARGEST = 4 << 20
"""Bytes of such a file; a statement of vLLM's wheel has 0.2 MB."""


@dataclass(frozen=True)
class About:
    """What is known about a wheel.

    Attributes:
        statement: Its unsigned statement; None if there is none.
        envelope: The statement in an envelope, signed with keys; likewise.
        attestations: Those of identities, by the file that has them.
    """

    statement: bytes | None
    envelope: bytes | None
    attestations: dict[str, bytes]

    @property
    def signed(self) -> bool:
        """Whether there is any signature."""
        return self.envelope is not None or bool(self.attestations)


def about(wheel: Path) -> About:
    """Return what lies next to a wheel.

    Raises:
        ProvenanceError: A file is no plain file, or larger than any such file.
    """
    found = {suffix: read_beside(wheel, suffix) for suffix in (*SUFFIXES, PROVENANCE)}
    others = (SLSA_ATTESTATION, PUBLISH_ATTESTATION, PROVENANCE)
    attestations = {f"{wheel.name}{suffix}": content for suffix in others if (content := found[suffix]) is not None}
    return About(found[SUFFIX], found[ENVELOPE], attestations)


def beside(wheel: Path, suffix: str) -> Path:
    """Return the path of a file about a wheel."""
    return wheel.with_name(f"{wheel.name}{suffix}")


def read_beside(wheel: Path, suffix: str) -> bytes | None:
    """Return the content of a file about a wheel; None if there is none.

    Raises:
        ProvenanceError: It is no plain file, or larger than any such file.
    """
    path = beside(wheel, suffix)
    try:
        return read_plain(path, LARGEST)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ProvenanceError(
            f"{path.name} cannot be read: {error.strerror}", where=path.parent, next_step="get it again"
        ) from error
