"""What a published wheel and the files next to it say of its build: read within limits, and verified on request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from cpuwheels.attestation.envelope import statement_in
from cpuwheels.attestation.files import ENVELOPE, PROVENANCE
from cpuwheels.attestation.pep740 import statements_in
from cpuwheels.attestation.statement import check_statement
from cpuwheels.core.errors import MalformedDataError, ProvenanceError, RebuildError, UnsafeArchiveError, WheelError
from cpuwheels.core.parse import parse_json
from cpuwheels.core.zip_archive import open_zip
from cpuwheels.pipeline.in_toto import ProvenanceStatement
from cpuwheels.pipeline.provenance import WheelNote
from cpuwheels.pipeline.slsa import SUFFIX, built_locally
from cpuwheels.rebuild.members import LIMITS
from cpuwheels.rebuild.plan import RebuildPlan, plan_rebuild
from cpuwheels.wheel.dist_info import NOTE, dist_info_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cpuwheels.attestation.files import About
    from cpuwheels.attestation.verify import Trust
    from cpuwheels.rebuild.published import Published

_LONGEST = 4 << 20
"""Bytes of a note."""


@dataclass(frozen=True)
class Found:
    """How a published wheel is rebuilt.

    Attributes:
        plan: That.
        content: The statement that says it; empty if there is none.
        by: Who signed that, as it was verified; none if that was not asked for.
    """

    plan: RebuildPlan
    content: bytes
    by: tuple[str, ...]


def read_published(published: Published, commit: str | None, trust: Trust | None) -> Found:
    """Return how a wheel is rebuilt.

    Args:
        published: The wheel and what lay next to it.
        commit: The cpuwheels that built it, if the user says that.
        trust: Whose signatures count; without it a statement is believed as far as it fits the wheel.

    Raises:
        RebuildError: The wheel is not one of cpuwheels, or does not say enough.
        ProvenanceError: A statement or a signature is not this wheel's.
    """
    statement, content, by = _statement(published, trust)  # first: a wheel that it is not about is not read
    note = read_wheel_note(published.wheel, published.origin)
    return Found(plan_rebuild(note, statement, commit, published.origin), content, by)


def read_wheel_note(wheel: Path, origin: str) -> WheelNote:
    """Return the note in a wheel of somebody else.

    Raises:
        RebuildError: There is none, or none that this version can read, or it is no wheel.
    """
    try:
        with open_zip(wheel, limits=LIMITS, where=origin) as archive:
            name = f"{dist_info_of(archive.names)}/{NOTE}"
            if name not in archive.infos:
                raise RebuildError(
                    f"the wheel has no {NOTE}: cpuwheels did not build it",
                    where=origin,
                    next_step="rebuild a wheel that cpuwheels built",
                )
            content = archive.read(name, _LONGEST)
        return WheelNote.model_validate(parse_json(content, NOTE), strict=False)
    except (UnsafeArchiveError, WheelError, MalformedDataError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else error.what
        raise RebuildError(
            f"it is not a wheel that can be read: {why}",
            where=origin,
            next_step="get it again from where it is published",
        ) from error
    except ValidationError as error:
        raise RebuildError(
            f"its {NOTE} is of another version of cpuwheels",
            where=origin,
            output=str(error).partition("\n")[0],
            next_step="rebuild it with a newer version",
        ) from error


def _statement(published: Published, trust: Trust | None) -> tuple[ProvenanceStatement | None, bytes, tuple[str, ...]]:
    name, sha256, about = published.wheel.name, published.sha256, published.about
    if trust is not None:
        from cpuwheels.attestation.verify import verify_about  # noqa: PLC0415  (the extra)

        verified = verify_about(about, name, sha256, trust, published.wheel.parent)
        return verified.statement, verified.statement.render(), verified.by
    found: list[tuple[ProvenanceStatement, bytes]] = []
    for content, file in _said(about, name):
        statement = check_statement(content, name, sha256, f"{published.origin}: {file}")
        if isinstance(statement, ProvenanceStatement):
            found.append((statement, content))
    # Who signs may name itself as the builder.
    if any(built_locally(one) != built_locally(found[0][0]) for one, _ in found):
        raise ProvenanceError(
            "the statements say different things about the wheel",
            where=published.origin,
            next_step="say whose counts: --trusted-key, or --identity and --issuer",
        )
    return (*found[0], ()) if found else (None, b"", ())


def _said(about: About, name: str) -> Iterator[tuple[bytes, str]]:
    """Yield all statements, signed or not, with the files that have them."""
    if about.statement is not None:
        yield about.statement, f"{name}{SUFFIX}"
    if about.envelope is not None:
        file = f"{name}{ENVELOPE}"
        yield from ((statement_in(line, file), file) for line in about.envelope.splitlines())
    for file, content in about.attestations.items():
        if file.endswith(PROVENANCE):
            yield from ((one, file) for one in statements_in(content, file))
