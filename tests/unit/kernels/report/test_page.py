"""The page: complete, self-contained, and true to the jobs."""

from __future__ import annotations

import itertools
import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest

from cpuwheels.kernels.memory.admission import MemoryUse
from cpuwheels.kernels.memory.costs import WrongPrediction
from cpuwheels.kernels.report.page import WIDTH, report_page
from cpuwheels.kernels.report.timeline import read_timeline
from ledger_records import RECORDS, job

SVG = "{http://www.w3.org/2000/svg}"
MEMORY = MemoryUse(jobs=2, cap=1000, where="--memory 1000", room=800, how="a group", peak=540)


class Page(HTMLParser):
    """Collects what a page refers to, and checks that its elements are closed in order."""

    VOID = frozenset({"meta", "line", "rect", "path"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.references: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.references += [value for name, value in attributes if name in {"src", "href", "xlink:href"}]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def drawings(text: str) -> list[ET.Element]:
    return [ET.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]


@pytest.fixture
def text() -> str:
    return report_page(read_timeline(RECORDS), MEMORY, title="vLLM <0.32.0>", cpus=2, note="from the store")


def test_it_is_whole_and_needs_nothing_else(text):
    page = Page(text)
    assert page.open == []
    assert page.references == []
    assert "url(" not in text
    assert "<script" not in text


def test_what_it_says(text):
    for words in (
        "vLLM &lt;0.32.0&gt;",
        "from the store",
        "540 B",
        "1000 B",
        "--memory 1000",
        "a group",
        "1.09",
        "1970-01-01 00:16",
    ):
        assert words in text


def test_every_job_is_drawn_in_its_place(text):
    lanes, _ = drawings(text)
    rectangles = lanes.findall("rect")
    assert len(rectangles) == len(RECORDS)
    boxes = [tuple(float(rectangle.get(name)) for name in ("x", "y", "width", "height")) for rectangle in rectangles]
    for x, y, width, height in boxes:
        assert 0 <= x <= x + width <= WIDTH + 0.01
        assert y + height <= 2 * 26
    for lane in {y for _, y, _, _ in boxes}:
        row = sorted((x, x + width) for x, y, width, _ in boxes if y == lane)
        assert all(end <= start + 0.01 for (_, end), (start, _) in itertools.pairwise(row))
    tips = [rectangle.findtext("title") for rectangle in rectangles]
    assert tips[0] == "_C: csrc/cpu/a.cpp\n10.0 s\nCPU 10.0 s\n250 B"


def test_memory_is_stacked_below_the_cap(text):
    _, memory = drawings(text)
    points = [
        [tuple(map(float, point.split(","))) for point in re.findall(r"[\d.]+,[\d.]+", path.get("d"))]
        for path in memory.findall("path")
    ]
    cap = next(float(line.get("y1")) for line in memory.findall("line") if line.get("class") == "cap")
    highest = min(y for outline in points for _, y in outline)
    assert cap < highest
    # 550 of a cap of 1000 were held at most; y grows downwards from the drawing's top.
    assert (220 - highest) / (220 - cap) == pytest.approx(0.55, abs=0.01)


def test_failures_and_wrong_predictions_are_listed():
    records = [*RECORDS, job("CMakeFiles/_C.dir/bad.cpp.o", 12, 1, status=137, attempt=2)]
    wrong = MemoryUse(2, 1000, "x", 800, "y", 5, (WrongPrediction("w.o", 10, 99),))
    text = report_page(read_timeline(records), wrong, title="t", cpus=2)
    assert "Run again, or failed" in text
    assert "<td>137</td>" in text
    assert "More than expected" in text
    assert "99 B" in text


def test_hits_of_the_compiler_cache_are_counted():
    text = report_page(read_timeline(RECORDS), MEMORY, title="t", cpus=2)
    assert "compiler cache" not in text
    records = [*RECORDS, job("CMakeFiles/_C.dir/had.cpp.o", 12, 1, note="direct_cache_hit")]
    text = report_page(read_timeline(records), MEMORY, title="t", cpus=2)
    assert f"<b>1 of {len(records)}</b>jobs had their result from the compiler cache" in text
    assert "from the compiler cache</title>" in text


def test_without_any_job_there_is_still_a_page():
    assert Page(report_page(read_timeline([]), MEMORY, title="t", cpus=2)).open == []


def test_many_targets_share_the_last_colour():
    records = [job(f"CMakeFiles/t{number}.dir/a.cpp.o", number, 1) for number in range(20)]
    text = report_page(read_timeline(records), MEMORY, title="t", cpus=1)
    assert "other targets" in text
    assert len(drawings(text)[1].findall("path")) == 8
