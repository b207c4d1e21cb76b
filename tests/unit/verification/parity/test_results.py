from __future__ import annotations

import json
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from cpuwheels.core.errors import ParityError, UsageError
from cpuwheels.verification.parity.comparison import changes
from cpuwheels.verification.parity.events import EventLog, library_result, unfinished
from cpuwheels.verification.parity.findings import Finding
from cpuwheels.verification.parity.html import parity_page
from cpuwheels.verification.parity.junit import junit_xml
from cpuwheels.verification.parity.reports import parity_file, write_reports
from cpuwheels.verification.parity.results import EMULATED, read_parity, require_parity
from cpuwheels.verification.parity.table import change_table, parity_table
from pseudo_terminal import WIDTHS, printed
from sample_results import case, library, parity


def test_rows_have_the_worst_case_of_each_operator_and_type() -> None:
    found = library("_C", case("a[1]", 0.2), case("a[2]", 0.9), case("a[3]", 0.4, dtype="bfloat16"), waived=("w",))
    rows = {(row.operator, row.dtype): row for row in found.rows()}
    assert rows["a", "float32"].ratio == 0.9
    assert rows["a", "float32"].worst_case == "a[2]"
    assert rows["a", "float32"].cases == 2
    assert rows["a", "bfloat16"].ratio == 0.4
    assert rows["w", ""].verdict == "waived"
    assert rows["w", ""].reason


def test_a_problem_without_a_number_is_the_worst() -> None:
    found = library("_C", case("a[1]", 3.0, problem="too far"), case("a[2]", None, problem="other bits"))
    (row,) = found.rows()
    assert (row.verdict, row.ratio, row.failed, row.worst_case) == ("failed", None, 2, "a[2]")


KNOWN = case("a[2]", 9.0, problem="far", known="a is wrong")
GONE = case("b[1]", 0.1, known="b was wrong")


@pytest.mark.parametrize(
    ("libraries", "changes", "judgement"),
    [
        ([library("_C", case("a[1]"))], {}, "passed"),
        ([library("_C", case("a[1]"))], {"not_run": {"_C_AVX2": "no"}}, "passed in part"),
        ([library("_C", case("a[1]"))], {"untried": {"AMX-FP8 of _C": "no"}}, "passed in part"),
        ([library("_C", case("a[1]"))], {"only": ("a",)}, "passed in part"),
        ([library("_C", case("a[1]"), waived=("w",))], {}, "passed in part"),
        ([library("_C", case("a[1]"), KNOWN)], {}, "passed in part"),
        ([library("_C", case("a[1]"), untested=("u",))], {}, "failed"),
        ([library("_C", case("a[1]")), library("_C_AVX2", case("a[1]", 2.0, problem="wrong"))], {}, "failed"),
        ([library("_C", case("a[1]"), GONE)], {}, "failed"),
        ([library("_C", case("a[1]"), GONE)], {"version": "0.32.1.dev5+gabc.cpu"}, "passed"),
        ([], {}, "failed"),
    ],
)
def test_only_what_was_tried_and_is_right_everywhere_has_passed(
    libraries: list, changes: dict[str, Any], judgement: str
) -> None:
    found = parity(*libraries, **{"not_run": {}} | changes)
    assert found.judgement == judgement
    if judgement != "failed":
        require_parity(found, [])
    else:
        with pytest.raises(ParityError):
            require_parity(found, [Path("parity.json")])


def test_the_error_names_operators_cases_and_reports() -> None:
    found = parity(library("_C", case("rms_norm[1]", 2.0, problem="out: too far"), untested=("brand_new",)))
    with pytest.raises(ParityError, match="2 operators of vllm") as raised:
        require_parity(found, [Path("x/parity.html")])
    assert "brand_new, rms_norm" in raised.value.what
    assert "rms_norm[1]: out: too far" in raised.value.output
    assert "x/parity.html" in raised.value.where


def test_a_report_can_be_read_again(tmp_path: Path) -> None:
    found = parity(library("_C", case("a[1]"), case("b[1]", None, problem="bits")))
    names = [path.name for path in write_reports(tmp_path / "new", found)]
    assert names == ["parity.xml", "parity.html", "parity.json"]
    assert read_parity(tmp_path / "new" / "parity.json") == found


@pytest.mark.parametrize("text", [None, "", "[]", '{"format": 2}', "{"])
def test_what_is_no_report_is_told(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "other.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match="is not a parity") as raised:
        read_parity(path)
    assert raised.value.where == "--against"


@pytest.mark.parametrize("name", ["vllm-0.32.0+cpu-cp38-abi3-manylinux_2_27_x86_64.whl", "parity.json"])
def test_another_wheel_stands_for_the_results_next_to_it(tmp_path: Path, name: str) -> None:
    found = parity(library("_C", case("a[1]")))
    write_reports(tmp_path, found)
    assert read_parity(parity_file(tmp_path / name)) == found
    assert parity_file(tmp_path / "other.json") == tmp_path / "other.json"


def test_junit_counts_what_a_ci_server_shows(tmp_path: Path) -> None:
    found = parity(
        library("_C", case("a[<1>]"), case("b[1]", 2.0, problem="too far & wrong"), waived=("w",), untested=("u",))
    )
    write_reports(tmp_path, found)
    (suite,) = ET.parse(tmp_path / "parity.xml").getroot()
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4",
        "failures": "2",
        "errors": "0",
        "skipped": "1",
    }
    (failure,) = suite.findall("testcase[@name='b[1]']/failure")
    assert failure.text == "too far & wrong"


def test_the_page_needs_nothing_else_and_escapes_what_it_shows() -> None:
    page = parity_page(
        parity(library("_C", case("a[1]", None, problem="<b>wrong</b>"), case("b[1]", 0.0), waived=("w",)))
    )
    assert "&lt;b&gt;wrong" in page
    assert "<b>wrong" not in page
    assert "src=" not in page
    assert "http" not in page
    assert "this CPU lacks avx512f" in page
    assert "needs &lt;another&gt; machine" in page


def test_the_page_and_the_terminal_list_what_sanitizers_found_by_place() -> None:
    one = Finding(kind="heap-buffer-overflow", what="READ of size 4", place="csrc/cpu/a.cpp:12", function="void <f>()")
    other = one.model_copy(update={"what": "READ of size 64"})
    found = parity(
        library("_C", case("a[1]").model_copy(update={"findings": (one,), "verdict": "failed"}), case("b[1]")),
        library("_C_AVX2", case("b[1]").model_copy(update={"findings": (other,), "verdict": "failed"})),
    )
    (place,) = found.findings
    assert (place.libraries, place.operators, place.case) == (("_C", "_C_AVX2"), ("a", "b"), "a[1]")
    page = parity_page(found)
    assert "csrc/cpu/a.cpp:12" in page
    assert "void &lt;f&gt;()" in page
    assert str(place) == (
        "heap-buffer-overflow at csrc/cpu/a.cpp:12: READ of size 4, in void <f>() (_C, _C_AVX2: a, b; first in a[1])"
    )
    assert "Found by sanitizers" not in parity_page(parity(library("_C", case("a[1]"))))


@pytest.mark.parametrize("width", WIDTHS)
def test_the_table_shows_each_library(width: int) -> None:
    found = parity(
        library("_C", case("a[1]", 0.91), case("z[1]", 0.0)), library("_C_AVX2", case("a[1]", 4.0, problem="wrong"))
    )
    rows = [row.split() for row in printed(parity_table(found).print, width).rows]
    assert ["a", "1", "0.91", "failed"] in rows
    assert ["z", "1", "exact", "-"] in rows


def test_what_changed_between_two_wheels() -> None:
    before = parity(
        library(
            "_C",
            case("same[1]", 0.5),
            case("worse[1]", 0.2),
            case("broken[1]", 0.2),
            case("gone[1]"),
            case("fixed[1]", None, problem="bits"),
            case("noise[1]", 0.001),
        )
    )
    after = parity(
        library(
            "_C",
            case("same[1]", 0.55),
            case("worse[1]", 0.4),
            case("broken[1]", 7.0, problem="far"),
            case("new[1]"),
            case("fixed[1]"),
            case("noise[1]", 0.01),
        )
    )
    found = {(change.after or change.before).operator: change.what for change in changes(before, after)}
    assert found == {"worse": "worse", "broken": "broken", "gone": "gone", "fixed": "fixed", "new": "new"}
    for width in WIDTHS:
        rows = [row.split() for row in printed(change_table(changes(before, after), "other.whl").print, width).rows]
        assert ["broken", "_C", "float32", "broken", "0.20", "failed"] in rows


@pytest.mark.parametrize("ratios", [(7.0, None), (None, 7.0)])
def test_a_wrong_result_that_is_wrong_in_another_way_has_changed(ratios: tuple[float | None, float | None]) -> None:
    before, after = (parity(library("_C", case("a[1]", ratio, problem="far"))) for ratio in ratios)
    (change,) = changes(before, after)
    assert (change.before.ratio, change.after.ratio) == ratios
    assert change.what == ("worse" if ratios[1] is None else "better")
    assert changes(before, before) == []


def test_two_levels_are_compared_case_by_case() -> None:
    before = parity(library("_C", case("a[1]", 0.2), case("b[1]", 0.1)), level="smoke")
    after = parity(library("_C", case("a[1]", 0.2), case("a[2]", 0.9), case("b[1]", 0.5), case("b[2]", 0.6)))
    (change,) = changes(before, after)
    assert (change.what, change.before.ratio, change.after.ratio) == ("worse", 0.1, 0.5)


def test_two_levels_are_compared_where_both_have_something() -> None:
    before, after = (
        parity(library("_C", case("a[1]")), level="smoke"),
        parity(library("_C", case("a[1]"), case("b[1]"))),
    )
    assert changes(before, after) == []


def read_events(path: Path) -> list[dict[str, Any]]:
    log = EventLog(path)
    log.read()
    return log.events


def test_an_unfinished_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"event": "library"}\n{"event": "started", "case": "a[1]"}\n{"event": "fin')
    events = read_events(path)
    assert len(events) == 2
    assert unfinished(events) == {"event": "started", "case": "a[1]"}
    assert unfinished([]) is None
    assert read_events(tmp_path / "none") == []


def test_what_is_written_later_is_read_later(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(path)
    for text, count in [('{"event": "library"}\n{"eve', 1), ('nt": "started", "case": "a[1]"}', 1), ("\n", 2), ("", 2)]:
        with path.open("a") as stream:
            stream.write(text)
        log.read()
        assert len(log.events) == count
    assert log.begun == ["a[1]"]
    assert log.events == read_events(path)


def test_an_event_takes_the_place_of_an_unfinished_line(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"event": "started", "case": "a[1]"}\n{"event": "finished", "case": "a[1]", "problems": ["it')
    log = EventLog(path)
    log.read()
    log.append({"event": "crashed", "case": "a[1]"})
    log.read()
    assert [event["event"] for event in log.events] == ["started", "crashed"]
    assert log.events == read_events(path)


def test_an_output_without_a_ratio_is_infinitely_wrong() -> None:
    outputs = {"a": {"ratio": 0.5, "error": 1, "limit": 2}, "b": {"ratio": None, "error": None, "limit": 0}}
    events = [
        {"event": "library", "operators": ["x"], "registered": ["x"], "waived": {}, "untested": [], "seed": 1},
        {
            "event": "finished",
            "case": "x[1]",
            "operators": ["x"],
            "dtype": "",
            "seconds": 1,
            "problems": ["b"],
            "outputs": outputs,
        },
    ]
    (found,) = library_result("_C", json.loads(json.dumps(events)), 2.0).cases
    assert found.ratio is None
    assert found.verdict == "failed"


def test_a_known_fault_is_not_wrong_and_counts_for_nothing_else() -> None:
    one = library("_C", case("a[1]", 0.3), case("a[2]", 9.0, problem="far", known="a is wrong"))
    only = library("_C_AVX2", case("a[2]", None, problem="it died", known="a is wrong"))
    found = parity(one, only)
    assert found.right
    require_parity(found, [])
    rows = {row.library: row for row in found.rows}
    assert (rows["_C"].verdict, rows["_C"].ratio, rows["_C"].known, rows["_C"].failed) == ("passed", 0.3, 1, 0)
    assert (rows["_C_AVX2"].verdict, rows["_C_AVX2"].known) == ("known", 1)


def test_a_known_fault_does_not_hide_another() -> None:
    found = parity(
        library("_C", case("a[1]", 3.0, problem="far"), case("a[2]", 9.0, problem="far", known="a is wrong"))
    )
    assert not found.right
    assert found.rows[0].verdict == "failed"
    assert found.rows[0].worst_case == "a[1]"


def test_reports_show_known_faults_and_those_that_are_gone(tmp_path: Path) -> None:
    found = parity(
        library(
            "_C",
            case("a[1]", 0.3),
            case("a[2]", 9.0, problem="far & off", known="a is wrong"),
            case("b[1]", 0.1, known="b was wrong"),
        )
    )
    assert found.gaps == [
        "_C_AVX512 was not run: this CPU lacks avx512f",
        "a known fault of upstream's kernels: a is wrong",
    ]
    assert found.tried == "level full: 3 cases of 2 operators on _C (Some CPU)"
    with pytest.raises(ParityError, match="1 known faults do not show any more") as raised:
        require_parity(found, [])
    assert raised.value.output == "_C: b was wrong"
    write_reports(tmp_path, found)
    page = (tmp_path / "parity.html").read_text()
    assert all(text in unescape(page) for text in (*found.gaps, found.tried, "Failed", "any more: b was wrong"))
    assert "a is wrong" in page
    assert "no longer show" in page
    assert "b was wrong" in page
    (suite,) = ET.parse(tmp_path / "parity.xml").getroot()
    assert (suite.get("failures"), suite.get("skipped")) == ("0", "1")
    (skipped,) = suite.findall("testcase[@name='a[2]']/skipped")
    assert skipped.get("message") == "known fault: a is wrong"
    text = " ".join(" ".join(printed(parity_table(found).print, 60).rows).split())
    assert "0.30*" in text
    assert "one of 1 known upstream faults" in text


def test_a_case_that_was_known_to_fail_says_so() -> None:
    common = {"operators": ["x"], "dtype": "", "seconds": 1, "outputs": {}}
    events = [
        {"event": "library", "operators": ["x"], "registered": ["x"], "waived": {}, "untested": [], "seed": 1},
        {"event": "finished", "case": "x[1]", "problems": ["b"], "known": "x is wrong", **common},
        {"event": "finished", "case": "x[2]", "problems": [], "known": "x is wrong", **common},
        {"event": "finished", "case": "x[3]", "problems": ["b"], "known": "", **common},
    ]
    cases = library_result("_C", events, 2.0).cases
    assert [one.verdict for one in cases] == ["known", "passed", "failed"]
    assert [one.expired for one in cases] == [False, True, False]


def test_every_report_says_what_emulation_does_not_show() -> None:
    result = parity(library("_C@max", case("a[1]")))
    emulated = result.model_copy(update={"emulated": True, "machine": "s390x, emulated by QEMU (max)"})
    for text in (parity_page(emulated), junit_xml(emulated).decode(), str(parity_table(emulated).caption)):
        assert EMULATED in text
        assert "s390x, emulated by QEMU (max)" in text
    for text in (parity_page(result), junit_xml(result).decode(), str(parity_table(result).caption)):
        assert EMULATED not in text
