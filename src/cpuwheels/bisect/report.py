"""The result of a bisection as a table, as files and as a page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rich.text import Text

from cpuwheels.bisect.git_log import git_log
from cpuwheels.bisect.issue import issue_text
from cpuwheels.bisect.result import SHOWN, is_kernel_file
from cpuwheels.bisect.state import RESULT
from cpuwheels.bisect.web_links import web_links
from cpuwheels.core.progress import clock
from cpuwheels.core.tables import Column, Table
from cpuwheels.core.templates import templates
from cpuwheels.verification.parity.reports import write_files

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.bisect.result import Outcome

MARKS = {"good": "✓", "bad": "✗", "skip": "○"}
"""Shapes of the verdicts, which do not depend on colour."""

_STYLES = {"good": "green", "bad": "red", "skip": "yellow"}


def write_bisection(outcome: Outcome) -> list[Path]:
    """Write ``bisect.log`` (for ``git bisect replay``), ``issue.md``, ``result.html`` and, last, ``result.json``.

    Raises:
        StoreError: The folder cannot be written.
    """
    texts = {
        "bisect.log": git_log(outcome.state, outcome.subjects),
        "issue.md": issue_text(outcome),
        "result.html": result_page(outcome),
        RESULT: json.dumps(outcome.as_json(), indent=1) + "\n",
    }
    return write_files(outcome.folder, texts)


def probe_table(outcome: Outcome) -> Table:
    """Return a table of the commits that were tested, in the order in which they were tested."""
    short = (Column("commit"), Column("verdict"), Column("time", right=True), Column("wheel"))
    table = Table((*short, Column("why", prose=True), Column("subject", prose=True)))
    for probe in outcome.state.probes:
        table.add_row(
            probe.commit[:9],
            Text(probe.verdict, style=_STYLES[probe.verdict]),
            clock(probe.seconds),
            probe.wheel_from,
            probe.reason,
            outcome.subjects.get(probe.commit, ""),
        )
    return table


def result_page(outcome: Outcome) -> str:
    """Return a self-contained page."""
    environment = templates("cpuwheels.bisect")
    environment.tests |= {"kernel_file": is_kernel_file}
    return environment.get_template("result.html.j2").render(
        outcome=outcome,
        links=web_links(outcome.address),
        marks=MARKS,
        issue=issue_text(outcome),
        found=outcome.found,
        question=outcome.state.question,
        probes=outcome.state.probes,
        places={commit.name: number for number, commit in enumerate(outcome.history.commits, 1)},
        count=len(outcome.history.commits),
        shown=SHOWN,
    )
