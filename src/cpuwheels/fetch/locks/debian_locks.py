"""The locks of Debian packages resolved anew, except those with a package that is too young."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cpuwheels.config.debian_lock import DebianLock
from cpuwheels.core.filesystem import write_atomic
from cpuwheels.core.limits import PAGE, PAGE_SIZE
from cpuwheels.core.models import load_yaml
from cpuwheels.fetch.debian.release import KEYRING, snapshot_time
from cpuwheels.fetch.debian.resolve import Indexes, lock_text
from cpuwheels.fetch.http_stream import HttpFaultError, http_answer
from cpuwheels.fetch.locks.changes import lock_changes
from cpuwheels.fetch.locks.debian_facts import published

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from cpuwheels.fetch.locks.changes import Change

SNAPSHOTS = "https://snapshot.debian.org/archive/debian"
_PROBED = "dists/stable/InRelease"
_OK = 200


@dataclass
class DebianRules:
    """What may be taken, and when it is.

    Attributes:
        mirrors: In order.
        now: The time, by which packages have an age; lists of suites have to be valid then, or
        as_of: at this earlier time, if it is given.
        cooldown: Age below which a package is not taken; None for any.
        allowed: Names for which that does not hold.
        keyring: Debian's archive keys.
    """

    mirrors: tuple[str, ...]
    now: datetime
    as_of: datetime | None = None
    cooldown: timedelta | None = None
    allowed: Collection[str] = ()
    keyring: Path = KEYRING


@dataclass
class DebianOutcome:
    """What came of it.

    Attributes:
        held: Lock that stays as it is → why.
        dates: When the list of each suite was made.
        renewed: Names of the locks that changed.
        names: Of all packages that were resolved, those of locks that stay, too.
    """

    held: dict[str, str] = field(default_factory=dict)
    dates: dict[str, datetime] = field(default_factory=dict)
    renewed: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)


def snapshot_of(moment: datetime) -> str:
    """Return the mirror that has the archive as it was at a moment."""
    return f"{SNAPSHOTS}/{moment.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def answers(mirror: str) -> bool:
    """Return whether a mirror can be reached, so that one that cannot is waited for once."""
    if not mirror.startswith(("http://", "https://")):
        return True
    try:
        with http_answer(f"{mirror}/{_PROBED}", most=PAGE_SIZE, patience=PAGE) as (head, _):
            return head.status == _OK
    except HttpFaultError:
        return False


def resolve_all(root: Path, rules: DebianRules) -> DebianOutcome:
    """Resolve every Debian lock of a project's folder, and write those that changed.

    A lock is renewed as a whole or not at all: its packages fit one another.

    Args:
        root: The project's folder, or a copy of it.
        rules: What may be taken.

    Raises:
        CpuwheelsError: As `cpuwheels.fetch.debian.resolve.relock`.
    """
    indexes = Indexes(rules.mirrors, rules.keyring, rules.now, rules.as_of)
    outcome = DebianOutcome(dates=indexes.dates)
    for path in sorted((root / "locks").glob("*.yaml")):
        old = load_yaml(path, DebianLock)
        new = indexes.resolve(old)
        outcome.names |= {package.name for package in new.packages}
        if new == old:
            continue
        if why := _too_young(lock_changes(old, new), rules, indexes.dates):
            outcome.held[path.name] = why
            continue
        write_atomic(path, lock_text(new))
        outcome.renewed.append(path.name)
    return outcome


def age_of(change: Change, rules: DebianRules, dates: Mapping[str, datetime]) -> tuple[timedelta | None, bool]:
    """Return how long a package has been in the archive, and whether it may be longer.

    A list that is as old as the cooldown says enough of all that is in it. Of a younger one each package is asked for.

    Args:
        change: Has the package, and the suites that it may be from.
        rules: Has the mirrors and the time.
        dates: When the list of each suite was made.
    """
    package = change.new_package
    if package is None:
        return None, True
    # The youngest of the lock's own suites: which of them has the package is not known.
    listed = max((dates[suite] for suite in change.suites if suite in dates), default=None)
    least = rules.now - listed if listed else None
    if least is not None and (rules.cooldown is None or least >= rules.cooldown):
        return least, True
    if moment := published(package, rules.mirrors):
        return rules.now - moment, False
    return least, True


def _too_young(changes: Iterable[Change], rules: DebianRules, dates: Mapping[str, datetime]) -> str:
    if rules.cooldown is None:
        return ""
    for change in changes:
        package = change.new_package
        if package is None or package.name in rules.allowed:
            continue
        age, least = age_of(change, rules, dates)
        if age is None or age < rules.cooldown:
            days = "of unknown age" if age is None else f"{age.days} days old" + (" or more" if least else "")
            return f"{package.name} {package.version} is {days}"
    return ""


def snapshot_day(mirrors: Sequence[str], dates: dict[str, datetime]) -> datetime:
    """Return a moment whose snapshot has what was resolved: the mirror's own, else the day after the newest list."""
    named = [moment for mirror in mirrors[:1] if (moment := snapshot_time(mirror))]
    if named:
        return named[0]
    newest = max(dates.values())
    return (newest + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
