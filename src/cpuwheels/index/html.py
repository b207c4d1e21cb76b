"""The pages for people about wheels: one of each view. They load nothing from other servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.core.templates import templates
from cpuwheels.index.agreement import agreement_words
from cpuwheels.index.installs import installs_of, locked_installs
from cpuwheels.index.layout import (
    BUNDLE,
    HTML,
    NIGHTLY,
    SIGNED,
    companion_path,
    lasting_view,
    link,
    target_order,
    wheel_path,
)
from cpuwheels.pipeline.pylock import FILE as LOCK
from cpuwheels.sandbox.mechanism import Mechanism

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpuwheels.index.entry import Entry, ParityResult, Reproduced, Speed, TestResult

MARKS: dict[ParityResult, str] = {"passed": "✓", "passed in part": "◐", "failed": "✗", "not run": "○"}
WORDS: dict[ParityResult, str] = {
    "passed": "every case was right, on each of its libraries",
    "passed in part": "what was tried is right",
    "failed": "a result was wrong",
    "not run": "not tested",
}
SERVED: dict[TestResult, str] = {
    "passed": "every answer was right",
    "failed": "an answer was wrong, or the server failed",
    "not run": "not tested",
}
PROVENANCE_WORDS = {
    "statement": "statement",
    "envelope": "signed statement (DSSE)",
    "provenance": "attestations (PEP 740)",
}


def view_page(view: str, entries: Sequence[Entry]) -> dict[str, str]:
    """Return the page of a commit, of a release or of the newest by its path.

    Args:
        view: Its folder.
        entries: Its wheels; at least one.
    """
    listed = sorted(entries, key=lambda entry: (target_order(entry.target), entry.filename))
    first, newest = listed[0], view == NIGHTLY
    text = (
        templates("cpuwheels.index")
        .get_template("view.html.j2")
        .render(
            unconfined=Mechanism("none").title,
            newest=newest,
            installs=installs_of(listed, None if newest else view),
            page=lasting_view,
            version=first.version.partition("+")[0] if first.commit is None else first.version,
            commit=first.commit,
            made=first.made,
            entries=listed,
            lock=LOCK,
            locked=locked_installs,
            parts=[(f"target-{target}", target) for target in dict.fromkeys(entry.target for entry in listed)],
            subject=first.subject,
            marks=MARKS,
            words=WORDS,
            served=SERVED,
            link=lambda entry: link(view, wheel_path(entry)),
            bundle=lambda entry: link(view, f"{wheel_path(entry)}{BUNDLE}"),
            agreement=agreement_words,
            speed=speed_words,
            reproduced=reproduced_words,
            report=lambda entry, name: link(view, companion_path(entry, name)),
            provenance=lambda entry: [
                (link(view, f"{wheel_path(entry)}{SIGNED[kind]}"), PROVENANCE_WORDS[kind])
                for kind in SIGNED
                if getattr(entry.signed, kind)
            ],
        )
    )
    return {f"{view}/{HTML}": text}


def speed_words(speed: Speed) -> str:
    """Return in a sentence how fast a wheel's kernels are."""
    if speed.ratio is None:
        return f"the same kernels as in {speed.against}"
    slower = f"; certainly slower: {', '.join(speed.slower)}" if speed.slower else "; no operator is certainly slower"
    return f"{speed.ratio:.2f} times as fast as in {speed.against} (geometric mean of all operators{slower})"


def reproduced_words(found: Reproduced | None) -> str:
    """Return in a sentence what came of a second build, and what was different in it."""
    if found is None:
        return "not yet"
    result = "the same bytes" if found.state == "reproduced" else "other bytes"
    varied = f"with other {', '.join(found.varied)}" if found.varied else "with nothing different"
    left = f"; could not be varied there: {', '.join(found.not_varied)}" if found.not_varied else ""
    return f"{result}, on {found.moment[:10]}, {varied}{left}"
