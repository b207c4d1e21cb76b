"""What a person calls a commit: a hash, a tag or a branch, a version, or a date."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal

from packaging.version import InvalidVersion, Version

from cpuwheels.core.errors import BisectError
from cpuwheels.source.history import dated_line

if TYPE_CHECKING:
    from cpuwheels.source.repository import Repository

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2})?(Z|[+-]\d{2}:?\d{2})?)?")
_HASH = re.compile(r"[0-9a-f]{7,64}")
_NODE = re.compile(r"\bg(?P<hash>[0-9a-f]{7,40})\b")


@dataclass(frozen=True)
class Revision:
    """A commit and how it was named.

    Attributes:
        text: What was given.
        kind: How it was understood.
        commit: Full hash.
    """

    text: str
    kind: Literal["hash", "name", "version", "date"]
    commit: str

    def __str__(self) -> str:
        """Return what was given and what it means."""
        meaning = {
            "hash": "",
            "name": "",
            "version": "the tag of that version, ",
            "date": "the last commit until then, ",
        }
        return f"{self.text} ({meaning[self.kind]}{self.commit})"


def kind_of(text: str) -> Literal["hash", "name", "version", "date"]:
    """Return how a text is understood."""
    if _HASH.fullmatch(text):
        return "hash"
    if _DATE.fullmatch(text):
        return "date"
    try:
        Version(text)
    except InvalidVersion:
        return "name"
    return "name" if text.startswith("v") else "version"


def git_name(text: str, branch: str) -> str:
    """Return the hash, tag or branch that a text is looked up by."""
    kind = kind_of(text)
    if kind == "date":
        return branch
    if kind == "version":
        node = _NODE.search(Version(text).local or "")
        return node["hash"] if node else f"v{Version(text).public}"
    return text


def resolve(repository: Repository, text: str, *, branch: str) -> Revision:
    """Return the commit that a text means.

    Args:
        repository: Where it is looked up.
        text: A hash, a tag, a branch, a version, or a date (ISO 8601, UTC if it names no zone; a day means its end).
        branch: Where the last commit before a date is looked for; only first parents count.

    Raises:
        SourceError: There is no such commit, or more than one.
        BisectError: It is no date, or the branch had no commit by then.
    """
    kind = kind_of(text)
    if kind == "date":
        return Revision(text, kind, _commit_at(repository, text, branch))
    return Revision(text, kind, repository.commit(git_name(text, branch)))


def moment_of(text: str) -> int:
    """Return a date's seconds since 1970.

    Args:
        text: As for `resolve`.

    Raises:
        BisectError: It is no date.
    """
    try:
        moment = datetime.fromisoformat(text)
        if len(text) == len("2026-11-01"):
            moment += timedelta(days=1, seconds=-1)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return int(moment.timestamp())
    except (ValueError, OverflowError) as error:
        raise BisectError(
            f"{text!r} is no date: {error}",
            where="--good, --bad",
            next_step="write it as 2026-11-01 or 2026-11-01T12:00",
        ) from error


def _commit_at(repository: Repository, text: str, branch: str) -> str:
    seconds = moment_of(text)
    line = dated_line(repository, repository.commit(branch))
    count = bisect_right(list(line.values()), seconds)  # that second counts in
    if not count:
        raise BisectError(
            f"{branch} has no commit by {text}",
            where=repository.name,
            next_step="give a later date, or another branch with --branch",
        )
    return list(line)[count - 1]
