"""What a rebuilder's site has about some wheels: fetched within limits, and of another's key or about others nothing.

A site may be hostile. It can be slow, large or wrong; all that it gains is that its own statements do not count.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from cpuwheels.attestation.files import LARGEST as LARGEST_ENVELOPE
from cpuwheels.core.errors import CpuwheelsError
from cpuwheels.core.limits import Patience
from cpuwheels.core.text import printable
from cpuwheels.core.urls import without_userinfo
from cpuwheels.fetch.http_stream import HttpFaultError, http_answer
from cpuwheels.index.rebuilders.statements import read_statement
from cpuwheels.rebuild.report import PAGE
from cpuwheels.rebuild.site.listing import LARGEST, LIST, read_listing
from cpuwheels.rebuild.statement import SIGNED_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from datetime import datetime

    from cpuwheels.index.entry import Entry
    from cpuwheels.index.rebuilders.known import KnownRebuilder
    from cpuwheels.index.rebuilders.statements import CountedStatement
    from cpuwheels.rebuild.site.listing import ListedRebuild

PATIENCE = Patience(answer=30, rate=1 << 10, window=30, whole=120)
SECONDS = 600.0
"""For all of a site."""

_MOST = 256 << 20
"""Bytes of all statements that are taken of a site in one run; what is left is taken in the next."""

_OF_A_WHEEL = 4
"""Statements about one wheel that are looked at, the newest on the list."""

_OK = 200
_LINE = 300


@dataclass
class SiteAnswer:
    """What a site had to say.

    Attributes:
        statements: Those that count and were not known yet, by the wheel's digest.
        reports: Addresses of reports, by the digest of the envelope that belongs to each.
        refused: Why others do not count.
        fault: Why it was not read, or not to its end; empty if it was.
        reached: Whether its list was read.
    """

    statements: dict[str, list[CountedStatement]] = field(default_factory=dict)
    reports: dict[str, str] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    fault: str = ""
    reached: bool = False


def ask_site(
    rebuilder: KnownRebuilder,
    entries: Mapping[str, Entry],
    known: Collection[str],
    now: datetime,
    *,
    patience: Patience = PATIENCE,
    seconds: float = SECONDS,
) -> SiteAnswer:
    """Return what a rebuilder's site has about an index's wheels; its faults are told and raise nothing.

    Args:
        rebuilder: Whose; only its own keys count there.
        entries: The wheels, by digest.
        known: Digests of its envelopes that are there already.
        now: The time.
        patience: How long each answer is waited for.
        seconds: For all of them.
    """
    answer = SiteAnswer()
    try:
        _ask(rebuilder, entries, known, now, answer, patience, time.monotonic() + seconds)
    except HttpFaultError as error:
        answer.fault = _line(str(error))
    except CpuwheelsError as error:
        answer.fault = _line(error.what)
    return answer


def _ask(
    rebuilder: KnownRebuilder,
    entries: Mapping[str, Entry],
    known: Collection[str],
    now: datetime,
    answer: SiteAnswer,
    patience: Patience,
    until: float,
) -> None:
    listing = read_listing(_get(f"{rebuilder.url}/{LIST}", LARGEST, patience), LIST)
    answer.reached = True
    left = _MOST
    for one in _newest(one for one in listing.rebuilds if one.sha256 in entries and one.envelope is not None):
        address = f"{rebuilder.url}/{one.folder}"
        assert one.envelope is not None  # noqa: S101  (chosen so)
        answer.reports[one.envelope] = f"{address}/{PAGE}"
        if one.envelope in known:
            continue
        if time.monotonic() > until or left <= 0:
            raise HttpFaultError("there is more than one run takes; the next goes on")
        name = f"{one.wheel}{SIGNED_SUFFIX}"
        try:
            line = _get(f"{address}/{quote(name)}", LARGEST_ENVELOPE, patience)
            left -= len(line)
            counted = _counted(line, one, rebuilder, entries, now)
            answer.statements.setdefault(one.sha256, []).append(counted)
        except HttpFaultError as error:
            answer.refused.append(_line(f"{name}: {error}"))
            if error.passing:  # it is too slow, and so may the next be
                raise
        except (CpuwheelsError, ValueError) as error:
            answer.refused.append(_line(f"{name}: {error.what if isinstance(error, CpuwheelsError) else error}"))


def _counted(
    line: bytes, listed: ListedRebuild, rebuilder: KnownRebuilder, entries: Mapping[str, Entry], now: datetime
) -> CountedStatement:
    """Return a statement that was fetched, if it counts."""
    if hashlib.sha256(line).hexdigest() != listed.envelope:
        raise ValueError("it has other bytes than the list says")
    return read_statement(line, [rebuilder], entries[listed.sha256], rebuilder.url, now)


def _newest(listed: Iterator[ListedRebuild]) -> Iterator[ListedRebuild]:
    """Yield the newest rebuilds of each wheel, the newest of all first."""
    counts: dict[str, int] = {}
    for one in sorted(listed, key=lambda one: (one.moment, one.folder), reverse=True):
        counts[one.sha256] = counts.get(one.sha256, 0) + 1
        if counts[one.sha256] <= _OF_A_WHEEL:
            yield one


def _get(url: str, most: int, patience: Patience) -> bytes:
    with http_answer(url, most=most, patience=patience) as (head, content):
        if head.status != _OK:
            raise HttpFaultError(f"HTTP status {head.status}")
        return b"".join(content)


def _line(text: str) -> str:
    return printable(without_userinfo(text).partition("\n")[0])[:_LINE]
