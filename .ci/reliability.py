"""Write docs/reliability.md: how many cases of each class of the campaign there are, and how many passed.

    nox -s tests && python .ci/reliability.py

It reads the reports that the groups of tests have left in dist/tests/.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "helpers"))

from campaign import CampaignClass, case_of, load_classes  # noqa: E402  (the tests' helpers are no installed package)
from groups import load_groups  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGE = ROOT / "docs" / "reliability.md"
SESSIONS = {"unit": "nox -s tests", "core": "nox -s tests", "full": "nox -s tests-full", "soak": "nox -s soak"}
"""What runs a part of the tests."""


@dataclass(frozen=True)
class Outcome:
    """What became of a case.

    Attributes:
        name: Its class.
        number: In the class.
        state: ``passed``, ``failed`` or ``skipped``.
        session: What runs it.
    """

    name: str
    number: int
    state: str
    session: str


def outcomes(reports: Path) -> list[Outcome]:
    """Read the outcomes of all cases from the JUnit reports in a folder."""
    found = []
    for group in load_groups():
        report = reports / group.report
        if not report.is_file():
            continue
        for case in ET.parse(report).iter("testcase"):  # noqa: S314  (written by pytest)
            known = case_of(f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}")
            if known:
                found.append(Outcome(*known, _state(case), SESSIONS[group.part]))
    return found


def _state(case: ET.Element) -> str:
    kinds = {child.tag for child in case}
    return "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"


def render(classes: Iterable[CampaignClass], found: Iterable[Outcome], measured: str) -> str:
    """Return the page.

    Args:
        classes: Of the campaign.
        found: What became of their cases.
        measured: Which code was run, when and where.
    """
    found = list(found)
    rows = []
    for each in classes:
        mine = [one for one in found if one.name == each.name]
        passed = sum(one.state == "passed" for one in mine)
        where = ", ".join(sorted({f"`{one.session}`" for one in mine}))
        rows.append(f"| {each.about} | {each.holds} | {each.cases} | {len(mine)} | {passed} | {where} |")
    return f"""# Reliability

A campaign of attacks and faults runs against the code. Each case is a test below `tests/campaign/`, in the folder of
its class; its number is in its name. A case asserts what its class promises, and that what was there before is
unchanged or healed. "Planned" is the number of cases that a security review asked for.

| class | what must hold | planned | cases | passed | run by |
|---|---|---|---|---|---|
{chr(10).join(rows)}

{measured}

`tests/project/test_campaign.py` checks that the cases are numbered without a gap and that this page counts those that
there are.
"""


def main() -> int:
    """Write the page; return 1 if a case failed or was skipped."""
    found = outcomes(ROOT / "dist" / "tests")
    describe = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    commit = subprocess.run(describe, check=True, capture_output=True, text=True).stdout.strip()
    machine = f"{platform.system()}, {platform.machine()}, Python {platform.python_version()}"
    measured = f"Written by `python .ci/reliability.py` at {commit} on {datetime.now(UTC):%Y-%m-%d} ({machine})."
    PAGE.write_text(render(load_classes(), found, measured), encoding="utf-8")
    return int(any(one.state != "passed" for one in found))


if __name__ == "__main__":
    sys.exit(main())
