"""Write the table of releases in docs/parity.md from the parity.json of their wheels.

nox -s parity-table                 # of all wheels in dist/x86/
nox -s parity-table -- FILE ...     # of these
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

from cpuwheels.verification.parity.results import WRONG, read_parity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpuwheels.verification.parity.results import Parity

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "parity.md"
START, END = "<!-- releases: written by nox -s parity-table -->", "<!-- end of releases -->"


def table(results: Sequence[Parity]) -> str:
    """Return a row for each library of each wheel, oldest release first."""
    rows = []
    for result in sorted(results, key=lambda result: Version(result.version)):
        about = f"{result.version} | {len(result.fixed_faults)} | {result.torch}, {result.machine}, {result.began[:10]}"
        for library in result.libraries:
            verdicts = [case.verdict for case in library.cases]
            known, wrong = verdicts.count("known"), sum(verdict in WRONG for verdict in verdicts)
            wrong += len(library.untested)
            rows.append(
                f"| {about} | `{library.name}` | {len(library.operators)} | {result.level} | {len(verdicts)} | "
                f"{known} | {wrong} |"
            )
            about = " | | "
    head = "| vLLM | faults fixed | run with | library | operators | level | cases | known | wrong |"
    return "\n".join([head, "|---|---|---|---|---|---|---|---|---|", *rows])


def with_table(text: str, rows: str) -> str:
    """Return the page with another table between its markers."""
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        raise SystemExit(f"{PAGE.relative_to(ROOT)} has no place for the table: {START}")
    return f"{before}{START}\n{rows}\n{END}{after}"


def main(arguments: Sequence[str]) -> None:
    """Write the table."""
    paths = [Path(name) for name in arguments] or sorted((ROOT / "dist" / "x86").glob("*/parity.json"))
    if not paths:
        raise SystemExit("no parity.json in dist/x86/: run nox -s parity-x86 first")
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(with_table(text, table([read_parity(path) for path in paths])), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
