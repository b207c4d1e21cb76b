"""The result of a bisection as Markdown that can be pasted into an issue."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cpuwheels.bisect.result import is_kernel_file
from cpuwheels.core.text import counted, printable

if TYPE_CHECKING:
    from cpuwheels.bisect.result import Outcome

_FILES = 10
"""Files of the first bad commit; the page and ``result.json`` have more."""


def issue_text(outcome: Outcome) -> str:
    """Return the text.

    What others wrote is in code spans, so that it mentions nobody and is no markup. Hashes are not: sites make links of
    them.
    """
    question, subjects = outcome.state.question, outcome.subjects
    lines = [_finding(outcome), ""]
    lines += [f"- target: {_code(question.target)}"]
    lines += [f"- {name}: {_code(str(value))}" for name, value in question.judge.items()]
    for what, commit in (("good", question.good), ("bad", question.bad)):
        lines.append(f"- {what} end: {commit} {_code(subjects.get(commit, ''))}".rstrip())
    lines.append(
        f"- {counted(len(outcome.history.commits), 'commit')} in the range, {len(outcome.state.probes)} tested"
    )
    if outcome.found:
        shown = outcome.found.files[:_FILES]
        lines += ["", "It changed:", ""]
        lines += [f"- {_code(name)}{' (kernels)' if is_kernel_file(name) else ''}" for name in shown]
        if more := len(outcome.found.files) - len(shown):
            lines.append(f"- and {more} more files")
    else:
        lines += ["", "What is left:", ""]
        lines += [f"- {suspect.commit} {_code(suspect.subject)}".rstrip() for suspect in outcome.suspects]
    lines += ["", "Tested, in this order:", "", "| commit | verdict | why |", "|---|---|---|"]
    lines += [f"| {probe.commit[:12]} | {probe.verdict} | {_cell(probe.reason)} |" for probe in outcome.state.probes]
    return "\n".join([*lines, "", "To reproduce it:", "", f"    {printable(outcome.again(elsewhere=True))}", ""])


def _finding(outcome: Outcome) -> str:
    if outcome.found:
        before = outcome.last_good
        after = f", and {before} before it is good" if before else ""
        meaning = f" ({outcome.meaning})" if outcome.meaning else ""
        return f"{outcome.found.commit} {_code(outcome.found.subject)} is the first bad commit{meaning}{after}."
    return f"One of {len(outcome.suspects)} commits is the first bad one; those between them could not be tested."


def _code(text: str) -> str:
    """Return a code span (CommonMark 6.1): its fence is longer than any run of backticks in it."""
    text = printable(text).strip()
    if not text:
        return ""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if "`" in text else ""
    return f"{fence}{space}{text}{space}{fence}"


def _cell(text: str) -> str:
    """Return a code span in a cell of a table, where a bar would end the cell."""
    return _code(text).replace("|", "\\|")
