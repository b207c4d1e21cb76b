"""The page: complete, self-contained, and true to the record."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from cpuwheels.core.store import Store
from cpuwheels.core.usage import Usage, counted
from cpuwheels.kernels.memory.admission import MemoryUse
from cpuwheels.kernels.memory.costs import WrongPrediction
from ledger_records import RECORDS, job
from recorded_wheel import write_build


class Page(HTMLParser):
    """Collects what a page refers to, and checks that its elements are closed in order."""

    VOID = frozenset({"meta", "line", "rect", "path"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.references: list[str] = []
        self.names: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.references += [value for name, value in attributes if name in {"src", "href", "xlink:href"}]
        self.ids += [value for name, value in attributes if name == "id"]
        self.names.append(tag)
        if tag == "th":
            assert dict(attributes).get("scope") in {"col", "row"}
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def text_of(folder: Path, **changes: object) -> str:
    write_build(folder, **changes)  # type: ignore[arg-type]
    return (folder / "report.html").read_text()


def drawings(text: str) -> list[ET.Element]:
    return [ET.fromstring(svg) for svg in re.findall(r"<svg id=.*?</svg>", text, re.DOTALL)]


def test_it_is_whole_and_needs_nothing_else(tmp_path: Path) -> None:
    text = text_of(tmp_path)
    page = Page(text)
    assert page.open == []
    # Its own parts, and files of the build.
    assert {f"#{one}" for one in page.ids} >= {link for link in page.references if link.startswith("#")}
    files = {link for link in page.references if not link.startswith("#")}
    assert files == {
        "vllm-0.32.0%2Bcpu-cp38-abi3-manylinux_2_27_x86_64.whl",
        "record.json",
        "operators.json",
        "../logs/",
    }
    assert set(re.findall(r"url\(([^)]*)\)", text)) <= {f"#{one}" for one in page.ids}
    assert "<script" not in text


def test_what_confined_the_build_and_why_it_was_no_better(tmp_path: Path) -> None:
    text = text_of(tmp_path)
    assert "<p>Upstream's code ran in this one: not sandboxed.</p>" in text
    assert '<p class="dim">a test</p>' in text


def test_landmarks_and_captions(tmp_path: Path) -> None:
    names = Page(text_of(tmp_path)).names
    assert [names.count(one) for one in ("main", "header", "nav", "h1")] == [1, 1, 1, 1]
    assert names.count("caption") == names.count("table") > 2


def test_what_is_printed_of_the_compilation(tmp_path: Path) -> None:
    text = text_of(tmp_path)
    for words in ("540 B", "1000 B", "--memory 1000", "a group", "1.09", "1970-01-01 00:16", "on 2 CPUs"):
        assert words in text
    assert "The cap of 1000 B is far above this drawing." in text
    lanes, memory = drawings(text)
    assert len(lanes.findall("rect")) == len(RECORDS)
    assert lanes.find("rect/title").text == "_C: csrc/cpu/a.cpp\n10.0 s\nCPU 10.0 s\n250 B"
    assert [line for line in memory.findall("line") if line.get("class") == "cap"] == []


def test_a_cap_that_is_near_is_on_the_drawing(tmp_path: Path) -> None:
    memory = MemoryUse(jobs=2, cap=600, where="--memory 600", room=580, how="a group", peak=540)
    text = text_of(tmp_path, memory=memory)
    assert "The dashed line is the cap of 600 B." in text
    assert len([line for line in drawings(text)[1].findall("line") if line.get("class") == "cap"]) == 1


def test_failures_and_wrong_predictions_are_listed(tmp_path: Path) -> None:
    records = [*RECORDS, job("CMakeFiles/_C.dir/bad.cpp.o", 12, 1, status=137, attempt=2)]
    wrong = MemoryUse(2, 1000, "x", 800, "y", 5, (WrongPrediction("w.o", 10, 99),))
    text = text_of(tmp_path, jobs=records, memory=wrong)
    assert "Run again, or failed" in text
    assert 'data-label="Exit status">137</td>' in text
    assert "More memory than expected" in text
    assert "99 B" in text


def test_hits_of_the_compiler_cache_are_counted(tmp_path: Path) -> None:
    assert "compiler cache" not in text_of(tmp_path / "a")
    records = [*RECORDS, job("CMakeFiles/_C.dir/had.cpp.o", 12, 1, note="direct_cache_hit")]
    assert f"<b>1 of {len(records)}</b>jobs had their result from the compiler cache" in text_of(
        tmp_path / "b", jobs=records
    )


def test_without_any_job_there_is_still_a_page(tmp_path: Path) -> None:
    assert Page(text_of(tmp_path, jobs=[])).open == []


@pytest.mark.parametrize("flags", [{}, {"_C": ("-O3", "-DX=<a>")}])
def test_flags_of_each_library(tmp_path: Path, flags: dict[str, tuple[str, ...]]) -> None:
    text = text_of(tmp_path, flags=flags)
    assert ("-O3 -DX=&lt;a&gt;" in text) == bool(flags)
    assert ("were built before flags were kept" in text) != bool(flags)


def test_the_audit_has_a_line_for_each_binary(tmp_path: Path) -> None:
    judged = {"file": "vllm/_C.abi3.so", "march": "generic64+avx2", "forms": 321, "guarded": ["f"], "unjudged": []}
    text = text_of(tmp_path, instructions=[judged])
    assert "generic64 +avx2" in text
    assert ">321</td>" in text
    assert "instructions of 1 binaries checked" in text


def test_what_the_build_fetched_and_stored_is_shown_if_it_is_anything(tmp_path: Path) -> None:
    with counted() as usage:
        usage.received(5 << 20)
        Store(tmp_path / "store").get("onednn", "a" * 24, lambda folder: (folder / "a").write_bytes(b"a") and None)
    text = text_of(tmp_path / "cold", usage=usage)
    assert Page(text).open == []
    assert '<tr><th scope="row">fetched</th><td data-label="Fetched with">http</td>' in text
    assert ">5 MiB<" in text
    assert '<td data-label="Stored as">onednn</td>' in text
    assert "Network and disk" not in text_of(tmp_path / "warm", usage=Usage())
