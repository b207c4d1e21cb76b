"""Reports of sanitizers: each is read once, whichever process wrote it."""

from __future__ import annotations

from pathlib import Path

from harness.sanitizers import Reports


def test_each_report_is_read_once(tmp_path: Path) -> None:
    reports = Reports(tmp_path)
    assert reports.new() == ""
    (tmp_path / "report.2").write_text("first\n")
    assert reports.new() == "first\n"
    assert reports.new() == ""
    with (tmp_path / "report.2").open("a") as stream:
        stream.write("second\n")
    (tmp_path / "report.7").write_text("of a child\n")
    assert reports.new() == "second\nof a child\n"
    assert reports.read == {"report.2": 13, "report.7": 11}


def test_without_a_folder_there_are_none() -> None:
    assert Reports(None).new() == ""
