"""The result of a bisection as a table, as files and as a page."""

from __future__ import annotations

import json
from textwrap import shorten
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from cpuwheels.bisect.git_log import git_log
from cpuwheels.bisect.issue import issue_text
from cpuwheels.bisect.result import SHOWN, is_kernel_file
from cpuwheels.bisect.state import RESULT
from cpuwheels.bisect.web_links import web_links
from cpuwheels.core.console import clock
from cpuwheels.core.templates import templates
from cpuwheels.verification.parity.reports import write_files

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.bisect.result import Outcome

_LONGEST = 80
"""Characters of a reason in the table; the other reports have all of it."""

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
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("commit", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("wheel", no_wrap=True)
    table.add_column("why", overflow="fold", ratio=1)
    table.add_column("subject", overflow="ellipsis", no_wrap=True, ratio=1)
    for probe in outcome.state.probes:
        table.add_row(
            probe.commit[:9],
            Text(probe.verdict, style=_STYLES[probe.verdict]),
            clock(probe.seconds),
            probe.wheel_from,
            Text(shorten(probe.reason, _LONGEST, placeholder=" …")),
            Text(outcome.subjects.get(probe.commit, "")),
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
