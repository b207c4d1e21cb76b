"""The table of what changed: for the terminal, and for a pull request."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from cpuwheels.fetch.locks.changes import Change
from cpuwheels.fetch.locks.table import COLUMNS, cells, markdown, terminal_table
from pseudo_terminal import WIDTHS, printed

CMAKE = Change(
    name="cmake",
    source="PyPI",
    old="4.4.4",
    new="4.4.5",
    locks=["build-tools.txt", "run.txt", "dev.txt"],
    days=12.4,
    licence="Apache-2.0 → BSD|3",
    licence_changed=True,
    size=2 << 20,
    old_size=1 << 20,
    sha256="ab" * 32,
)
GONE = Change(name="gone", source="Debian sid amd64", old="1", new="", locks=["a.yaml"])
YOUNG = Change(name="young", source="Debian sid amd64", old="", new="1", locks=["a.yaml"], days=27.9, least=True)


def test_a_row_has_all_that_a_review_needs() -> None:
    row = dict(zip(COLUMNS, cells(CMAKE, short=False), strict=True))
    assert row == {
        "package": "cmake",
        "old": "4.4.4",
        "new": "4.4.5",
        "age": "12 d",
        "source": "PyPI",
        "licence": "Apache-2.0 → BSD|3 (changed)",
        "size": "1 MiB → 2 MiB",
        "sha256": "ab" * 32,
        "locks": "build-tools.txt, run.txt, dev.txt",
    }
    assert cells(GONE, short=True)[1:4] == ("1", "-", "-")
    assert cells(YOUNG, short=True)[3:7] == ("≥ 27 d", "Debian sid amd64", "?", "?")


def test_the_page_for_a_pull_request() -> None:
    page = markdown([CMAKE, GONE], {"gcc.yaml": "g++ 15 is 2 days old"}, ["Python packages before today"])
    lines = page.splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    assert len(rows) == 3
    assert all(row.replace("\\|", "").count("|") == len(COLUMNS) + 1 for row in rows)
    assert "BSD\\|3" in page
    assert "- Python packages before today" in lines
    assert "- `gcc.yaml`: g++ 15 is 2 days old" in lines
    assert "Nothing changed." in markdown([], {}, [])


def test_the_terminal_shows_the_beginning_of_a_digest() -> None:
    out = StringIO()
    terminal_table([CMAKE]).print(Console(file=out, width=200))
    assert "ab" * 6 in out.getvalue()
    assert "ab" * 7 not in out.getvalue()
    assert "3 locks" in out.getvalue()


@pytest.mark.parametrize("width", WIDTHS)
def test_no_width_hides_a_cell(width: int) -> None:
    text = "\n".join(printed(terminal_table([CMAKE, YOUNG]).print, width).rows)
    assert [cell for change in (CMAKE, YOUNG) for cell in cells(change, short=True) if cell not in text] == []


def test_on_a_narrow_terminal_the_last_columns_stand_below() -> None:
    rows = printed(terminal_table([CMAKE]).print, 60).rows
    assert rows[0].split() == ["package", "old", "new", "age", "source"]
    assert rows[3:] == [
        "  licence: Apache-2.0 → BSD|3 (changed)  size: 1 MiB → 2 MiB",
        "  sha256: abababababab  locks: 3 locks",
    ]
