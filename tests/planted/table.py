"""The table of planted faults by operator: from the results of full:planted into docs/parity.md.

python tests/planted/table.py          writes the table of dist/tests/planted.json
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plant import all_faults

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "dist" / "tests" / "planted.json"
PAGE = ROOT / "docs" / "parity.md"
BEGIN, END = "<!-- planted faults: begin -->\n", "<!-- planted faults: end -->\n"
HEAD = "| operator | faults | smoke level | full level | not found | not tried |\n|---|---|---|---|---|---|\n"


def share(found: Sequence[Mapping[str, Any]], *levels: str) -> float:
    """Return the share of trials in which cases of some levels find the fault."""
    return sum(trial.get("level") in levels for trial in found if trial["case"]) / len(found)


def coverage(found: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return a row for each operator: counts of its faults in all libraries.

    A fault counts once for each operator that has to find it. It is found if it is in each library that has it.
    """
    trials: dict[tuple[int, str], list[Mapping[str, Any]]] = defaultdict(list)
    for trial in found:
        trials[trial["fault"], trial["operator"]].append(trial)
    rows: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0, 0])
    for fault in all_faults():
        for operator in fault.operators:
            of_fault = trials[fault.number, operator]
            row = rows[operator]
            row[0] += 1
            if not of_fault:
                row[4] += 1
            elif not all(trial["case"] for trial in of_fault):
                row[3] += 1
            else:
                row[1] += all(trial["level"] == "smoke" for trial in of_fault)
                row[2] += 1
    return {name: [str(number or "") for number in row] for name, row in sorted(rows.items())}


def text(results: Mapping[str, Any]) -> str:
    """Return what goes between the marks."""
    found = results["found"]
    table = "".join(f"| `{name}` | {' | '.join(row)} |\n" for name, row in coverage(found).items())
    if not found:
        return f"{len(all_faults())} faults, of which none has been tried yet.\n\n{HEAD}{table}"
    names = {fault.number: fault.name for fault in all_faults()}
    missed = sorted({names[trial["fault"]] + f" ({trial['library']})" for trial in found if not trial["case"]})
    tried = (
        f"{len(all_faults())} faults, {len(found)} trials of a fault, an operator and a library, of which cases of the "
        f"smoke level find {share(found, 'smoke'):.1%}, those of the full level {share(found, 'smoke', 'full'):.1%}."
    )
    where = (
        f"vLLM {results['version']}, {results['date']}, {results['cpus']} cores of {results['machine']}, "
        f"{results['minutes']} minutes. Without a fault "
        + ", ".join(f"{cases:,} cases of `{name}`" for name, cases in results["cases"].items())
        + " are right."
    )
    gaps = "".join(f"- {name}\n" for name in missed)
    return f"{tried}\n{where}\n\n{HEAD}" + table + (f"\nNot found:\n\n{gaps}" if gaps else "")


def write(results: Mapping[str, Any], page: Path) -> None:
    """Put the table into the page.

    Raises:
        ValueError: The page has no place for it.
    """
    before = page.read_text("utf-8")
    if before.count(BEGIN) != 1 or before.count(END) != 1:
        raise ValueError(f"{page} needs one place for the table")
    pattern = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    page.write_text(pattern.sub(lambda _: BEGIN + text(results) + END, before), "utf-8")


if __name__ == "__main__":
    write(json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {"found": []}, PAGE)
