"""``nox -s rebuild -- --newest``: the newest wheels of an index, one after the other; a bad one does not end it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

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
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from cpuwheels.config.matrix import Matrix, Target
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter
    from cpuwheels.rebuild.report import Result
    from cpuwheels.rebuild.session import RebuildOptions
    from cpuwheels.rebuild.site.folder import SiteFolder
    from cpuwheels.rebuild.site.newest import NewWheel

ATTEMPTS = 3
"""How often a wheel is tried that cannot be rebuilt, in all runs together."""

_PASSING = frozenset({DownloadError.exit_code, SourceError.exit_code})
"""Errors that may be gone at the next run, by the exit code of the build that had them."""

_MACHINE = frozenset({DiskFullError.exit_code, StoreError.exit_code, SandboxError.exit_code, StoppedError.exit_code})
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
class RoundOptions:
    """What the user may choose for a run over what is new.

    Attributes:
        index: Address of the index.
        newest: How many of its newest wheels are looked at.
        rebuild: How each is rebuilt; its wheel and folder are filled in.
        site: The folder that is published.
        target: Only wheels for this target.
        hours: After which no rebuild is begun; None for no limit.
        again: Whether what was rebuilt before is rebuilt once more.
    """

    index: str
    newest: int
    rebuild: RebuildOptions = field(repr=False)
    site: Path
    target: str | None = None
    hours: float | None = None
    again: bool = False


def rebuild_newest(
    paths: Paths, matrix: Matrix, target: Target, options: RoundOptions, reporter: Reporter
) -> list[Outcome]:
    """Rebuild what is new in an index, publish what comes of it, and return what became of each wheel.

    Args:
        paths: Folders to read and write.
        matrix: The configuration.
        target: This machine's own, for `cpuwheels.rebuild.session.rebuild`; a wheel's address says which is meant.
        options: What the user chose.
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

        def one(wheel: NewWheel, out: Path) -> Result:
            choice = replace(options.rebuild.choice, wheel=f"{wheel.url}#sha256={wheel.sha256}", index=None)
            result, _ = rebuild(paths, matrix, target, replace(options.rebuild, choice=choice, out=out), reporter)
            return result

        return run_round(wheels, site, one, budget, reporter, again=options.again)


def run_round(
    wheels: Sequence[NewWheel],
    site: SiteFolder,
    make: Callable[[NewWheel, Path], Result],
    budget: Budget,
    reporter: Reporter,
    *,
    again: bool = False,
) -> list[Outcome]:
    """Rebuild wheels in their order and return what became of each.

    Args:
        wheels: What there is.
        site: Where what comes of it is published.
        make: Rebuilds one into a folder.
        budget: What may be used; asked before each.
        reporter: Told of each outcome.
        again: Whether what was rebuilt before, or failed too often, is rebuilt once more.
    """
    outcomes: list[Outcome] = []
    stopped = ""
    for wheel in wheels:
        if not again and site.has(wheel.sha256):
            outcome = Outcome(wheel, "there")
        elif not again and site.attempts(wheel.sha256) >= ATTEMPTS:
            outcome = Outcome(wheel, "given up", f"it failed {ATTEMPTS} times; --again tries it once more")
        elif stopped := stopped or budget.spent():
            outcome = Outcome(wheel, "postponed", stopped)
        else:
            reporter.info(f"{wheel.source[:9]} {wheel.target}: {wheel.name}")
            outcome, stopped = _attempted(wheel, site, make)
        outcomes.append(outcome)
        if outcome.state not in {"there", "given up"}:
            said = f": {outcome.reason}" if outcome.reason else ""
            reporter.info(f"{wheel.source[:9]} {wheel.target}: {outcome.state}{said}")
    return outcomes


def _attempted(wheel: NewWheel, site: SiteFolder, make: Callable[[NewWheel, Path], Result]) -> tuple[Outcome, str]:
    """Return what became of a wheel, and why no other may be begun after it."""
    began = time.monotonic()
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    folder = site.place(wheel.sha256, moment)
    try:
        result = make(wheel, folder)
    except BuildFailedError as error:
        code, why = error.status, f"the build ended with exit code {error.status}"
    except CpuwheelsError as error:
        code, why = error.exit_code, error.what
    else:
        site.list_rebuild(folder)
        state: State = "reproduced" if result.reproduced else "differs"
        differing = "" if result.compared is None else f"{result.sentence}; {folder}"
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
