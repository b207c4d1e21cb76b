"""Tables at all widths, on a terminal and in a pipe."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from cpuwheels.core.tables import Column, Table, print_wrapped
from pseudo_terminal import WIDTHS, printed

URL = "https://github.com/vllm-project/vllm/actions/runs/1234567890/artifacts/9876543210?check_suite_focus=true"
HASH = "3f2a9c1d0b8e7654"
REASON = f"the command ended with exit status 3, see {URL} and [the log]"
SUBJECT = "[CPU] Fix the scales of products of 8 bit numbers where rows are of one number alone (#12345)"


def commits() -> Table:
    short = (Column("commit"), Column("verdict"), Column("time", right=True), Column("wheel"))
    table = Table((*short, Column("why", prose=True), Column("subject", prose=True)), "what was tried", ["* a caption"])
    table.add_row(HASH, Text("bad", style="red"), "1:02:03", "built here", REASON, SUBJECT)
    table.add_row("0123456789abcdef", Text("good", style="green"), "12.0 s", "cached", "", "日本語の題名")
    return table


def libraries(count: int) -> Table:
    names = [f"_C_AVX512 on Skylake-Server-v{number}" for number in range(count)]
    table = Table(
        (Column("operator"), Column("cases", right=True), *(Column(n, right=True, alike=True) for n in names))
    )
    table.add_row("cpu_attention_with_kv_cache", "12", *["failed" if number % 2 else "0.12" for number in range(count)])
    return table


def piped(table: Table) -> list[str]:
    out = io.StringIO()
    table.print(Console(file=out, width=80))
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [30, *WIDTHS, 300])
def test_verdict_hash_reason_and_address_are_all_there(width: int) -> None:
    terminal = printed(commits().print, width)
    row = next(row for row in terminal.rows if HASH in row)
    assert row.split()[:2] == [HASH, "bad"]
    assert URL.encode() in terminal.raw, "an address that has a line end in it cannot be copied"
    shown = " ".join(terminal.rows).split()
    assert [word for word in (REASON + " " + SUBJECT).split() if word not in shown and word != URL] == []
    assert "日本語の題名" in "".join("".join(terminal.rows).split())
    assert terminal.rows[0] == "what was tried"
    assert terminal.rows[-1] == "* a caption"


@pytest.mark.parametrize("width", [30, *WIDTHS, 300])
def test_only_words_that_are_longer_than_a_line_go_beyond_it(width: int) -> None:
    lines = printed(commits().print, width).lines
    assert [line for line in lines if cell_len(line) > width and line.strip() != URL] == []


def test_sentences_stand_in_columns_only_where_there_is_room() -> None:
    table = commits()
    table.rows[0] = (*table.rows[0][:4], Text("exit status 3"), table.rows[0][5])
    heads = {width: printed(table.print, width).rows[1].split() for width in WIDTHS}
    assert heads[60] == heads[80][:4] == ["commit", "verdict", "time", "wheel"]
    assert heads[100] == heads[140] == [*heads[60], "why", "subject"]
    narrow = printed(table.print, 60).rows
    assert "  why: exit status 3" in narrow
    assert any(row.startswith("  subject: [CPU] Fix") for row in narrow)
    assert any(row.startswith("    ") for row in narrow), "the rest of a sentence stands further in"


@pytest.mark.parametrize(("width", "below"), [(60, True), (80, True), (100, True), (140, False)])
def test_columns_to_compare_stay_together(width: int, below: bool) -> None:
    rows = printed(libraries(7).print, width).rows
    first = next(row for row in rows if "cpu_attention" in row)
    assert first.split() == ["cpu_attention_with_kv_cache", "12", *([] if below else ["0.12", "failed"] * 3 + ["0.12"])]
    shown = " ".join(rows)
    assert shown.count("failed") == 3
    assert ("_C_AVX512 on Skylake-Server-v1: failed" in shown) == below


def test_a_heading_that_is_longer_than_its_cells_is_broken() -> None:
    rows = printed(libraries(3).print, 80).rows
    assert "_C_AVX512" in rows[0]
    assert max(map(len, rows)) <= 80
    assert rows[-1].split() == ["cpu_attention_with_kv_cache", "12", "0.12", "failed", "0.12"]


def test_in_a_pipe_no_line_is_broken() -> None:
    lines = piped(commits())
    assert len(lines) == 6
    assert lines[3].startswith(f"{HASH}  bad      1:02:03  built here  {REASON}  {SUBJECT}")
    assert not any(line.endswith(" ") for line in lines)


def test_without_headings_there_is_no_line_below_them() -> None:
    table = Table((Column(""), Column("", prose=True)))
    table.add_row("flags", "_C +1 [red]-2")
    table.add_row("files\n", "1\tadded\x1b[2J")
    assert piped(table) == ["flags  _C +1 [red]-2", "files  1 added\\x1b[2J"]


def test_a_table_without_rows_has_its_headings() -> None:
    assert piped(Table((Column("commit"), Column("why", prose=True))))[0].split() == ["commit", "why"]


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (11, ["  one two", "      three", "      four"]),
        (15, ["  one two", "      three", "      four"]),
        (16, ["  one two  three", "      four"]),
        (21, ["  one two  three four"]),
    ],
)
def test_a_text_is_broken_between_words(width: int, lines: list[str]) -> None:
    text = Text("one two  three four")
    assert printed(lambda console: print_wrapped(console, text, indent=2, hanging=4), width).rows == lines
