"""Which statements about a wheel count: signed by a rebuilder that is known, about these bytes, the newest of each.

Of one rebuilder the newest statement counts, by the moment that it has signed itself; of two of one moment the one that
says "differs". The newest of those with another outcome is kept with it, so that nobody changes a mind unseen.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cpuwheels.attestation.envelope import verify_envelope
from cpuwheels.core.errors import CpuwheelsError, ProvenanceError
from cpuwheels.core.parse import parse_json
from cpuwheels.index.agreement import Finding
from cpuwheels.rebuild.statement import check_rebuild

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cpuwheels.index.entry import Entry
    from cpuwheels.index.rebuilders.known import KnownRebuilder
    from cpuwheels.rebuild.statement import RebuildStatement

_SIGNER = re.compile(r"key (?P<keyid>[0-9a-f]+)")
_EARLY = timedelta(days=1)
"""How far ahead a rebuilder's clock may be."""


@dataclass(frozen=True)
class CountedStatement:
    """A statement that counts.

    Attributes:
        rebuilder: Who signed it.
        keyid: With which key.
        line: The envelope, as it was fetched, with its line feed.
        statement: What it says.
    """

    rebuilder: str
    keyid: str
    line: bytes
    statement: RebuildStatement

    @property
    def digest(self) -> str:
        """Of the envelope."""
        return hashlib.sha256(self.line).hexdigest()

    @property
    def order(self) -> tuple[str, bool, bytes]:
        """By what the newest is found."""
        summary = self.statement.predicate
        return (summary.time_verified, summary.details.result == "differs", self.line)

    @property
    def rebuilt(self) -> str:
        """Digest of the wheel that came out."""
        return self.statement.predicate.details.rebuilt.digest["sha256"]


def read_statement(
    line: bytes, rebuilders: Sequence[KnownRebuilder], entry: Entry, where: str, now: datetime | None = None
) -> CountedStatement:
    """Return a statement, if it counts.

    Args:
        line: The envelope, one line with its line feed.
        rebuilders: Any of them may have signed it.
        entry: The wheel.
        where: What has it, for messages.
        now: When it was fetched; what is dated long after that does not count.

    Raises:
        ProvenanceError: None of them signed it, it is about something else, or whoever signed it published the wheel.
    """
    if not line.endswith(b"\n") or len(line.splitlines()) != 1:
        raise _uncounted("it is not one line", where)
    owners = {key.keyid: one for one in rebuilders for key in one.keys}
    payload, keyid = verify_envelope(line, [key for one in rebuilders for key in one.keys], where)
    if len(parse_json(line, where)["signatures"]) != 1:
        raise _uncounted("it has several signatures", where)
    if keyid in publishers_of(entry):
        raise _uncounted(f"key {keyid} has signed the wheel's own provenance: its owner is not independent", where)
    statement = check_rebuild(payload, entry.filename, entry.sha256, where)
    moment = datetime.strptime(statement.predicate.time_verified, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    if now is not None and moment > now + _EARLY:
        raise _uncounted(f"it is of {statement.predicate.time_verified}, which is to come", where)
    return CountedStatement(owners[keyid].name, keyid, line, statement)


def publishers_of(entry: Entry) -> frozenset[str]:
    """Return the ids of the keys that signed a wheel's own provenance."""
    matches = (_SIGNER.fullmatch(by) for by in (entry.signed.by if entry.signed else ()))
    return frozenset(match["keyid"] for match in matches if match)


def read_kept(
    content: bytes, rebuilders: Sequence[KnownRebuilder], entry: Entry, where: str
) -> tuple[list[CountedStatement], list[str]]:
    """Return the statements in an index's file that count, and why others do not."""
    counted, refused = [], []
    for line in content.splitlines(keepends=True):
        try:
            counted.append(read_statement(line, rebuilders, entry, where))
        except (CpuwheelsError, ValueError) as error:
            refused.append(error.what if isinstance(error, CpuwheelsError) else str(error))
    return counted, refused


def deciding(statements: Iterable[CountedStatement]) -> list[CountedStatement]:
    """Return of each rebuilder the statement that counts, followed by the newest one of another outcome."""
    found: list[CountedStatement] = []
    given = {one.line: one for one in statements}.values()
    for name in sorted({one.rebuilder for one in given}):
        own = sorted((one for one in given if one.rebuilder == name), key=lambda one: one.order, reverse=True)
        found.append(own[0])
        found += [one for one in own if one.rebuilt != own[0].rebuilt][:1]
    return found


def findings_of(statements: Sequence[CountedStatement], reports: Mapping[str, str]) -> tuple[Finding, ...]:
    """Return what rebuilders say of a wheel.

    Args:
        statements: What `deciding` returned.
        reports: Addresses of reports, by the digest of the envelope that each belongs to.
    """
    found: dict[str, Finding] = {}
    for one in statements:
        details = one.statement.predicate.details
        if (first := found.get(one.rebuilder)) is not None:
            found[one.rebuilder] = first.model_copy(update={"before": details.result})
            continue
        found[one.rebuilder] = Finding(
            name=one.rebuilder,
            keyid=one.keyid,
            state=details.result,
            rebuilt=one.rebuilt,
            moment=one.statement.predicate.time_verified,
            report=reports.get(one.digest),
        )
    return tuple(found.values())


def _uncounted(why: str, where: str) -> ProvenanceError:
    return ProvenanceError(
        f"the statement of a rebuild does not count: {why}", where=where, next_step="ask the rebuilder"
    )
