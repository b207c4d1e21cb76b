"""The pages for people that list commits: the index's root with the newest, and one of each day."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from cpuwheels.core.templates import templates
from cpuwheels.index.html import MARKS
from cpuwheels.index.installs import newest_installs
from cpuwheels.index.layout import DAYS, HTML, NIGHTLY, SITES, companion, day_page_path, day_path, link, target_order
from cpuwheels.index.simple_pages import page_text
from cpuwheels.verification.benchmark.result import SPEED
from cpuwheels.verification.parity.reports import HTML as PARITY
from cpuwheels.verification.serving.result import SERVE
from cpuwheels.verification.verified import VERIFY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cpuwheels.index.commit_pages import Commits, Day, Row, Wheel
    from cpuwheels.index.entry import Entry, ParityResult
    from cpuwheels.index.sites import Sites

WORDS: dict[ParityResult, str] = {
    "passed": "passed",
    "passed in part": "passed in part",
    "failed": "failed",
    "not run": "not tested",
}
FAULTS: dict[str, str] = {"failed": "not built", "wrong": "wrong results"}

_REASON = 160
"""Characters of a reason that are shown at once."""


def root_page(commits: Commits, newest: Sequence[Entry], sites: Sites | None = None) -> dict[str, str]:
    """Return the root page by its path: targets and the newest commits.

    Args:
        commits: The page of the newest commits.
        newest: The wheels of the newest view.
        sites: What the sites of rebuilders answered; None if none was asked.
    """
    text = (
        templates("cpuwheels.index")
        .get_template("root.html.j2")
        .render(
            _of_rows(commits.newest, ""),
            caption="The newest commits and releases, with what each target's wheel was found to be",
            installs=newest_installs(commits, newest),
            newest=f"{NIGHTLY}/" if newest else "",
            sites=sites,
            sites_file=SITES,
            days=[{"name": day, "month": day[:7], "path": day_page_path(day)} for day in commits.days],
        )
    )
    return {HTML: text}


def day_pages(day: str, page: Day) -> dict[str, str]:
    """Return the pages of a day's commits by their paths: the one for programs, and the one for people.

    Args:
        day: ``YYYY-MM-DD``.
        page: Its commits.
    """
    text = (
        templates("cpuwheels.index")
        .get_template("day.html.j2")
        .render(_of_rows(page.rows, DAYS.rstrip("/")), caption=f"Commits and releases of {day}", day=day)
    )
    return {day_path(day): page_text(page), day_page_path(day): text}


def targets_of(rows: Iterable[Row]) -> list[str]:
    """Return the targets of which rows say something, in the order of their columns."""
    return sorted({target for row in rows for target in (*row.wheels, *row.missing)}, key=target_order)


def _of_rows(rows: Sequence[Row], folder: str) -> dict[str, object]:
    """Return what a table of commits needs on a page in a folder of the index."""
    targets = targets_of(rows)
    there = {wheel.parity for row in rows for wheel in row.wheels.values()}
    lacking = {missing.state for row in rows for missing in row.missing.values()}
    return {
        "rows": rows,
        "root": "../" if folder else "",
        "targets": targets,
        "columns": [(target, target) for target in targets],
        "choices": [(one, f"{MARKS[one]} {words}") for one, words in WORDS.items() if one in there]
        + [(f"no wheel: {one}", f"✗ {words}") for one, words in FAULTS.items() if one in lacking],
        "marks": MARKS,
        "words": WORDS,
        "faults": FAULTS,
        "shown": _REASON,
        "report": partial(_report, folder),
        "parity_report": PARITY,
        "speed_report": SPEED,
        "serve_report": SERVE,
        "verify_report": VERIFY,
    }


def _report(folder: str, wheel: Wheel, name: str) -> str | None:
    """Return the link from a folder to a wheel's report; None if it has none of that name."""
    return link(folder, companion(wheel.path, name)) if name in wheel.beside else None
