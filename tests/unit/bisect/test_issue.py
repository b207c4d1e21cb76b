"""The text for an issue: whole, and with nothing in it that a site would obey."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from bisections import FOUND, LEFT, outcome
from cpuwheels.bisect.issue import issue_text

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("plain_git")


def test_it_says_what_was_found_and_how(tmp_path: Path) -> None:
    found = outcome(tmp_path, FOUND)
    assert found.found is not None
    lines = issue_text(found).splitlines()
    assert lines[0] == (
        f"{found.found.commit} `change <5>` is the first bad commit, and {found.last_good} before it is good."
    )
    question = found.state.question
    assert "- target: `x86`" in lines
    assert "- run: `test -e 'a b'`" in lines
    assert f"- good end: {question.good} `release <0>`" in lines
    assert f"- bad end: {question.bad} `change <8>`" in lines
    assert "- 8 commits in the range, 4 tested" in lines
    assert lines[lines.index("It changed:") + 2] == "- `csrc/cpu/ops.cpp` (kernels)"
    assert f"| {found.found.commit[:12]} | bad | `because <5>` |" in lines
    assert lines[-1] == f"    {found.again(elsewhere=True)}"


def test_it_says_what_is_left(tmp_path: Path) -> None:
    left = outcome(tmp_path, LEFT)
    text = issue_text(left)
    assert text.startswith("One of 3 commits is the first bad one")
    assert left.last_good == ""
    for suspect in left.suspects:
        assert f"- {suspect.commit} `{suspect.subject}`" in text


@pytest.mark.parametrize(
    ("subject", "shown"),
    [
        ("thanks @everybody <b>", "`thanks @everybody <b>`"),
        ("use `x` and ``y``", "``` use `x` and ``y`` ```"),
        ("two\n\n# lines\x1b[31m", "`two\\n\\n# lines\\x1b[31m`"),
        ("", ""),
    ],
)
def test_what_others_wrote_is_no_markup(tmp_path: Path, subject: str, shown: str) -> None:
    found = outcome(tmp_path, FOUND)
    other = replace(found, suspects=(replace(found.suspects[0], subject=subject),))
    assert issue_text(other).splitlines()[0].split(" ", 1)[1].startswith(f"{shown} is the first bad commit")


def test_a_reason_stays_in_its_cell(tmp_path: Path) -> None:
    found = outcome(tmp_path, FOUND)
    probes = tuple(probe.model_copy(update={"reason": "a | b\nc"}) for probe in found.state.probes)
    other = replace(found, state=found.state.model_copy(update={"probes": probes}))
    rows = [line for line in issue_text(other).splitlines() if line.startswith("| ")]
    assert rows[1].endswith(r"| `a \| b\nc` |")
    assert len(rows) == 5


def test_of_many_files_the_first_are_named(tmp_path: Path) -> None:
    found = outcome(tmp_path, FOUND)
    files = tuple(f"vllm/{number:02}.py" for number in range(25))
    text = issue_text(replace(found, suspects=(replace(found.suspects[0], files=files),)))
    assert "- `vllm/09.py`\n- and 15 more files\n" in text
