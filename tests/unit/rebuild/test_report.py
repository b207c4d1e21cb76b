"""The page and the lines of a result: true, and safe whatever the wheel has in it."""

from __future__ import annotations

import re
from dataclasses import replace

from cpuwheels.rebuild.members import Compared, MemberDifference
from cpuwheels.rebuild.report import Result, difference_text, report_page, terminal_lines
from rebuild_statements import OTHER, details, statement

EVIL = "<script>alert(1)</script>"


def result(compared: Compared | None = None, **changes: object) -> Result:
    made = statement(details(OTHER if compared else "1" * 64, **changes))
    return Result(statement=made, compared=compared, origin=f"https://x/{EVIL}", sizes=(10, 11), seconds=61.0)


def difference(member: str, *lines: str) -> MemberDifference:
    return MemberDifference(member=member, where="both", kind="text", sizes=(1, 2), lines=lines)


def test_the_same_bytes_are_said_with_what_was_believed() -> None:
    found = result(remarks=("built without --locked",))
    text = "\n".join(terminal_lines(found))
    assert "the bytes are the same: sha256 1111" in text
    assert "nobody who is trusted" in text
    assert "note: built without --locked" in text
    assert "the statement is not signed" in text
    assert "1 toolchain" in text
    page = report_page(found)
    assert "The same bytes" in page
    assert "<h2>Differences" not in page


def test_signatures_are_named() -> None:
    found = replace(result(), provenance=("key abc",), signed="def")
    text = "\n".join(terminal_lines(found))
    assert "signed by key abc" in text
    assert "signed by key def" in text


def test_members_that_differ_are_on_the_page_and_in_the_message() -> None:
    many = tuple(difference(f"vllm/{number}.py", "-a", "+b") for number in range(30))
    found = result(Compared(count=30, same=5, differences=many), otherwise=("torch torch: a → b",))
    page, text = report_page(found), difference_text(found)
    assert "Other bytes" in page
    assert page.count("<details") >= 30
    assert "torch torch: a → b" in page
    assert text.splitlines()[0] == "otherwise: torch torch: a → b"
    assert "vllm/0.py: 1 → 2 bytes" in text
    assert "and 10 more, see the report" in text


def test_what_a_wheel_has_in_it_is_escaped() -> None:
    found = result(Compared(count=1, same=0, differences=(difference(f"vllm/{EVIL}", EVIL, "\x1b[31m"),)))
    page = report_page(replace(found, diffoscope=EVIL))
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 4
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", difference_text(found).replace("\n", ""))
