"""How two contents of a member differ, told in a few lines whatever the contents are."""

from __future__ import annotations

import json
import random
import time

import pytest

from cpuwheels.rebuild.contents import MOST_LINES, Kind, difference_lines, kind_of
from elf_writer import Elf


def lines(name: str, one: bytes, other: bytes) -> list[str]:
    return difference_lines(kind_of(name, one, other), one, other)


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("vllm/_C.abi3.so", Elf().write(), "elf"),
        ("vllm/a.json", b"{}", "json"),
        ("v.dist-info/RECORD", b"a,b,c", "record"),
        ("v.dist-info/METADATA", b"Name: a", "headers"),
        ("vllm/a.py", b"1", "text"),
        ("vllm/a.bin", b"a\0b", "bytes"),
        ("vllm/not.so", b"\0", "bytes"),
    ],
)
def test_what_a_member_is_compared_as(name: str, content: bytes, kind: Kind) -> None:
    assert kind_of(name, content, content) == kind


def test_sections_of_an_elf_file_are_named() -> None:
    found = lines("a.so", Elf(text=b"code").write(), Elf(text=b"cope").write())
    assert "section .text: first differs at byte 2 of 4 bytes" in found
    assert found[-1].endswith("sections are the same")
    assert not any(".dynstr" in line for line in found)


def test_a_damaged_elf_file_is_compared_as_bytes() -> None:
    whole = Elf().write()
    found = lines("a.so", whole, whole[:80])
    assert found[0].startswith("first differs at byte")


def test_keys_of_json_are_named() -> None:
    one = {"a": {"b": [1, 2]}, "gone": 1, "same": "x"}
    other = {"a": {"b": [1, 3]}, "new": None, "same": "x"}
    assert lines("a.json", json.dumps(one).encode(), json.dumps(other).encode()) == [
        "a.b[1]: 2 → 3",
        "gone: only in the published one: 1",
        "new: only in the rebuilt one: None",
    ]
    assert lines("a.json", b'{"a":1}', b'{"a": 1}') == ["the same values, written otherwise"]


def test_rows_of_a_record_and_headers_are_named() -> None:
    found = lines("v.dist-info/RECORD", b"a.py,sha256=1,2\nb.py,sha256=3,4\n", b"a.py,sha256=1,2\nb.py,sha256=5,4\n")
    assert found == ["b.py: sha256=3, 4 → sha256=5, 4"]
    found = lines(
        "v.dist-info/METADATA", b"Name: a\nRequires-Dist: x\n\ntext\n", b"Name: a\nRequires-Dist: y\n\ntext\n"
    )
    assert found == ["only in the published one: Requires-Dist: x", "only in the rebuilt one: Requires-Dist: y"]


def test_lines_of_a_text_are_shown_with_those_around() -> None:
    one = "".join(f"{number}\n" for number in range(5000))
    found = lines("a.py", one.encode(), one.replace("2500\n", "twenty-five hundred\n").encode())
    assert found[0] == "from line 2499:"
    assert {"-2500", "+twenty-five hundred", " 2499", " 2501"} <= set(found)
    assert len(found) < 12
    assert lines("a.py", b"1\r\n", b"1\n") == ["the same lines, with other ends"]


def test_texts_that_differ_everywhere_take_no_time() -> None:
    left = [str(number) for number in range(200_000)]
    right = left[:]
    random.Random(1).shuffle(right)
    began = time.process_time()
    found = lines("a.py", "\n".join(left).encode(), "\n".join(right).encode())
    assert time.process_time() - began < 5
    assert found[0] == "line 1, of 200000 and 200000:"


def test_what_is_shown_is_bounded_and_obeyed_by_no_terminal() -> None:
    one = "\n".join(f"\x1b[31m{number}\x07" for number in range(900))
    found = lines("a.py", one.encode(), one.replace("m", "n").encode())
    assert len(found) == MOST_LINES + 1
    assert found[-1] == "and more"
    assert all(line.isprintable() for line in found)
    assert max(map(len, lines("a.py", b"x" * 100_000, b"y" * 100_000))) <= 301


def test_other_bytes_have_both_digests() -> None:
    found = lines("a.bin", b"\0" * 70_000 + b"a", b"\0" * 70_000 + b"b")
    assert found[0] == "first differs at byte 70000 of 70001 bytes"
    assert found[1].startswith("sha256 ")
