"""``nox -s rebuild -- --newest``: the newest wheels of an index, one after the other; a bad one does not end it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, Protocol

from rich.text import Text

from cpuwheels.core.budget import Budget
from cpuwheels.core.errors import (
    CpuwheelsError,
    DiskFullError,
    DownloadError,
    NotReproducedError,
    PostponedError,
    RebuildError,
    SandboxError,
    SourceError,
    StoppedError,
    StoreError,
)
from cpuwheels.core.filesystem import free_bytes
from cpuwheels.core.progress import clock
from cpuwheels.core.tables import Column, Table
from cpuwheels.core.text import counted
from cpuwheels.rebuild.build import BuildFailedError
from cpuwheels.rebuild.session import rebuild
from cpuwheels.rebuild.site.folder import open_site
from cpuwheels.rebuild.site.newest import newest_wheels

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from cpuwheels.config.matrix import Matrix, Target
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter
    from cpuwheels.rebuild.session import RebuildOptions
    from cpuwheels.rebuild.site.folder import SiteFolder
    from cpuwheels.rebuild.site.newest import NewWheel

ATTEMPTS = 3
"""How often a wheel is tried that cannot be rebuilt, in all runs together."""

_PASSING = frozenset({DownloadError.exit_code, SourceError.exit_code})
"""Errors that may be gone at the next run, by the exit code of the build that had them."""

_MACHINE = frozenset(
    error.exit_code for error in (DiskFullError, StoreError, SandboxError, StoppedError, PostponedError)
)
"""Errors that would stop the next wheel too; they say nothing of this one."""

State = Literal["reproduced", "differs", "failed", "there", "given up", "postponed"]
_STYLES: dict[State, str] = {
    "reproduced": "green",
    "differs": "bold red",
    "failed": "red",
    "there": "dim",
    "given up": "dim",
    "postponed": "yellow",
}


@dataclass(frozen=True)
class Outcome:
    """What became of one wheel.

    Attributes:
        wheel: Which.
        state: The same bytes, other ones, no rebuild, a rebuild from before, too many attempts before, or left for the
            next run.
        reason: Why, for people.
        seconds: It took.
    """

    wheel: NewWheel
    state: State
    reason: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Rebuilt:
    """A rebuild that came to its end.

    Attributes:
        reproduced: Whether the bytes are the same.
        sentence: The result in words.
    """

    reproduced: bool
    sentence: str


class Rebuilder(Protocol):
    """Rebuilds wheels."""

    def in_order(self, wheels: Sequence[NewWheel], budget: Budget) -> Iterable[NewWheel]:
        """Yield all of the wheels in the order in which they are asked for.

        Args:
            wheels: What has to be rebuilt.
            budget: What may be used.
        """

    def __call__(self, wheel: NewWheel, out: Path) -> Rebuilt:
        """Rebuild a wheel into a folder that is not there.

        Raises:
            CpuwheelsError: It cannot be rebuilt.
            BuildFailedError: The build fails.
        """


@dataclass(frozen=True)
class ThisMachine:
    """Rebuilds wheels here, one after the other.

    Attributes:
        paths: Folders to read and write.
        matrix: The configuration.
        target: This machine's own.
        options: How each is rebuilt; its wheel and folder are filled in.
        reporter: Told of every step.
    """

    paths: Paths
    matrix: Matrix
    target: Target
    options: RebuildOptions = field(repr=False)
    reporter: Reporter

    def in_order(self, wheels: Sequence[NewWheel], budget: Budget) -> Iterable[NewWheel]:
        """Return the wheels as they are."""
        del budget
        return wheels

    def __call__(self, wheel: NewWheel, out: Path) -> Rebuilt:
        """Rebuild a wheel into a folder that is not there.

        Raises:
            CpuwheelsError: It cannot be rebuilt.
            BuildFailedError: The build fails.
        """
        choice = replace(self.options.choice, wheel=wheel.pinned_url, index=None)
        options = replace(self.options, choice=choice, out=out)
        result, _ = rebuild(self.paths, self.matrix, self.target, options, self.reporter)
        return Rebuilt(result.reproduced, result.sentence)


@dataclass(frozen=True)
class RoundOptions:
    """What the user may choose for a run over what is new.

    Attributes:
        index: Address of the index.
        newest: How many of its newest wheels are looked at.
        site: The folder that is published.
        target: Only wheels for this target.
        hours: After which no rebuild is begun; None for no limit.
        again: Whether what was rebuilt before is rebuilt once more.
    """

    index: str
    newest: int
    site: Path
    target: str | None = None
    hours: float | None = None
    again: bool = False


def rebuild_newest(
    paths: Paths, matrix: Matrix, options: RoundOptions, rebuilder: Rebuilder, reporter: Reporter
) -> list[Outcome]:
    """Rebuild what is new in an index, publish what comes of it, and return what became of each wheel.

    Args:
        paths: Folders to read and write.
        matrix: The configuration.
        options: What the user chose.
        rebuilder: Rebuilds each.
        reporter: Told of every step.

    Raises:
        PublishError: There is no index at the address.
        DownloadError: It does not answer.
        PostponedError: Another run has the folder.
        StoreError: The folder cannot be written.
    """
    deadline = None if options.hours is None else time.monotonic() + options.hours * 3600
    with open_site(options.site, reporter) as site:
        wheels = newest_wheels(options.index, options.newest, options.target)
        reporter.info(f"{options.index} has {counted(len(wheels), 'wheel')} to look at")
        places = (options.site, paths.cache, paths.dist)
        budget = Budget(deadline, matrix.nightly.keep_free, lambda: min(map(free_bytes, places)))
        return run_round(wheels, site, rebuilder, budget, reporter, again=options.again)


def run_round(
    wheels: Sequence[NewWheel],
    site: SiteFolder,
    rebuilder: Rebuilder,
    budget: Budget,
    reporter: Reporter,
    *,
    again: bool = False,
) -> list[Outcome]:
    """Rebuild wheels and return what became of each, in their order.

    Args:
        wheels: What there is.
        site: Where what comes of it is published.
        rebuilder: Rebuilds one into a folder.
        budget: What may be used; asked before each.
        reporter: Told of each outcome.
        again: Whether what was rebuilt before, or failed too often, is rebuilt once more.
    """
    outcomes: dict[str, Outcome] = {}
    for wheel in wheels if not again else ():
        if site.has(wheel.sha256):
            outcomes[wheel.sha256] = Outcome(wheel, "there")
        elif site.attempts(wheel.sha256) >= ATTEMPTS:
            why = f"it failed {ATTEMPTS} times; --again tries it once more"
            outcomes[wheel.sha256] = Outcome(wheel, "given up", why)
    stopped = ""
    for wheel in rebuilder.in_order([one for one in wheels if one.sha256 not in outcomes], budget):
        if stopped := stopped or budget.spent():
            outcome = Outcome(wheel, "postponed", stopped)
        else:
            reporter.info(f"{wheel.source[:9]} {wheel.target}: {wheel.name}")
            outcome, stopped = _attempted(wheel, site, rebuilder)
        outcomes[wheel.sha256] = outcome
        said = f": {outcome.reason}" if outcome.reason else ""
        reporter.info(f"{wheel.source[:9]} {wheel.target}: {outcome.state}{said}")
    return [outcomes[wheel.sha256] for wheel in wheels]


def _attempted(wheel: NewWheel, site: SiteFolder, rebuilder: Rebuilder) -> tuple[Outcome, str]:
    """Return what became of a wheel, and why no other may be begun after it."""
    began = time.monotonic()
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    folder = site.place(wheel.sha256, moment)
    try:
        result = rebuilder(wheel, folder)
    except BuildFailedError as error:
        code, why = error.status, f"the build ended with exit code {error.status}"
    except CpuwheelsError as error:
        code, why = error.exit_code, error.what
    else:
        site.list_rebuild(folder)
        state: State = "reproduced" if result.reproduced else "differs"
        differing = "" if result.reproduced else f"{result.sentence}; {folder}"
        return Outcome(wheel, state, differing, time.monotonic() - began), ""
    if code in _MACHINE:
        return Outcome(wheel, "postponed", why, time.monotonic() - began), why
    site.list_failure(wheel.name, wheel.sha256, moment, why, passing=code in _PASSING)
    return Outcome(wheel, "failed", why, time.monotonic() - began), ""


def outcome_table(outcomes: Sequence[Outcome]) -> Table:
    """Return a table of the wheels, for the terminal."""
    short = (Column("source"), Column("target"), Column("state"), Column("time", right=True))
    table = Table((*short, Column("", prose=True)))
    for one in outcomes:
        seconds = clock(one.seconds) if one.seconds else ""
        state = Text(one.state, style=_STYLES[one.state])
        table.add_row(one.wheel.source[:9], one.wheel.target, state, seconds, one.reason or one.wheel.name)
    return table


def require_all(outcomes: Sequence[Outcome], site: Path) -> None:
    """Check that all that was to be rebuilt was, with the same bytes.

    Raises:
        NotReproducedError: A wheel has other bytes.
        RebuildError: A wheel could not be rebuilt.
        PostponedError: Wheels are left for the next run.
    """
    found = {state: [one for one in outcomes if one.state == state] for state in _STYLES}
    lines = [f"{one.wheel.source[:9]} {one.wheel.target}: {one.reason}" for one in outcomes if one.reason]
    if found["differs"]:
        raise NotReproducedError(
            f"{counted(len(found['differs']), 'wheel')} came out with other bytes",
            where=site,
            output="\n".join(lines),
            next_step="read their reports; the statements say so, and are published",
        )
    if found["failed"]:
        raise RebuildError(
            f"{counted(len(found['failed']), 'wheel')} could not be rebuilt",
            where=site,
            output="\n".join(lines),
            next_step=f"read the logs below dist/logs/rebuild; each is tried {ATTEMPTS} times",
        )
    if found["postponed"]:
        raise PostponedError(
            f"{counted(len(found['postponed']), 'wheel')} left for the next run",
            where=site,
            output="\n".join(lines),
            next_step="run it again, with more --hours or more of the disk free",
        )
