"""The report next to a wheel, written from what lies there, and again when there is more."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from cpuwheels.cli import main
from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import StoreError, WheelError
from cpuwheels.core.tables import Table
from cpuwheels.pipeline.build_record import precompiled_record
from cpuwheels.pipeline.report import write as module
from cpuwheels.pipeline.report.write import published_report, refresh_if_built, refresh_report, write_trace
from ledger_records import RECORDS
from recorded_wheel import write_build
from sample_results import case, library, parity
from small_wheels import write_wheel

NOTE = "these kernels were in the store; this is the build that compiled them"


def page(folder: Path) -> str:
    return (folder / "report.html").read_text()


def test_it_is_about_the_wheel(tmp_path: Path) -> None:
    wheel = write_build(tmp_path, facts={"alternates": ("oneDNN 3.7.2 in place of v3.13",)}, notes=("a note",))
    text = page(tmp_path)
    for words in (
        wheel.name,
        "torch==2.13.0+cpu",
        "▲</span> oneDNN 3.7.2 in place of v3.13",
        "a note",
        "-O3 -mavx512f",
        "_C::scale",
        "csrc/cpu/a.cpp",
        f"uv pip install {wheel.name} --torch-backend cpu",
        'href="record.json"',
        'href="../logs/"',
    ):
        assert words in text
    assert "trace.json" not in text
    assert NOTE not in text


def test_it_is_published_without_links_to_what_is_not(tmp_path: Path) -> None:
    write_build(tmp_path)
    text = published_report(tmp_path, {"record.json"})
    assert 'href="record.json"' in text
    assert 'href="operators.json"' in page(tmp_path)
    assert 'href="operators.json"' not in text
    assert 'href="../logs/"' not in text


def test_the_reports_of_its_tests_are_links_where_they_are_published(tmp_path: Path) -> None:
    wheel = write_build(tmp_path)
    (tmp_path / "parity.json").write_text(parity(sha256=file_digest(wheel)).model_dump_json())
    (tmp_path / "parity.html").write_text("")
    assert 'href="parity.html"' in published_report(tmp_path, {"record.json", "parity.html"})
    assert 'href="parity.html"' not in published_report(tmp_path, {"record.json"})


def test_whose_build_it_was_is_on_the_page(tmp_path: Path) -> None:
    write_build(tmp_path)
    record = json.loads((tmp_path / "record.json").read_text())
    record["jobs"]["compiled_in_this_run"] = False
    assert record["kept_libraries"] == []
    record["kept_libraries"] = ["libone.so"]
    (tmp_path / "record.json").write_text(json.dumps(record))
    assert "made by an earlier build" not in page(tmp_path)
    refresh_report(tmp_path)
    assert NOTE in page(tmp_path)
    assert "libone.so: made by an earlier build" in page(tmp_path)


def test_a_wheel_with_another_ones_kernels_has_a_report_too(tmp_path: Path) -> None:
    write_build(tmp_path, made=precompiled_record("https://example.org/a.whl", "a.whl", "d" * 64))
    text = page(tmp_path)
    assert "those of a.whl from https://example.org/a.whl" in text
    assert "<svg" not in text


def test_the_trace_has_every_job(tmp_path: Path) -> None:
    write_trace(tmp_path, RECORDS, "title")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == len(RECORDS)


def test_a_folder_that_is_not_there_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        write_trace(tmp_path / "file", RECORDS, "title")


@pytest.mark.parametrize(("content", "what"), [(None, "cannot be read"), ("{}", "not a build record of this version")])
def test_without_a_record_there_is_no_report(tmp_path: Path, content: str | None, what: str) -> None:
    if content:
        (tmp_path / "record.json").write_text(content)
    with pytest.raises(WheelError, match=what):
        refresh_report(tmp_path)
    assert not (tmp_path / "report.html").exists()


def test_only_a_wheels_own_report_is_written_again(tmp_path: Path) -> None:
    wheel = write_build(tmp_path)
    (tmp_path / "report.html").write_text("old")
    refresh_if_built(tmp_path / "other-1-py3-none-any.whl")
    assert page(tmp_path) == "old"
    refresh_if_built(wheel)
    assert wheel.name in page(tmp_path)
    refresh_if_built(write_wheel(tmp_path / "alone", "vllm", "1"))
    assert [path.suffix for path in (tmp_path / "alone").iterdir()] == [".whl"]


def test_two_that_write_at_once_write_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_build(tmp_path)
    running, most = [0], [0]

    def slow(_: object) -> str:
        running[0] += 1
        most[0] = max(most[0], running[0])
        time.sleep(0.05)
        running[0] -= 1
        return "a page"

    monkeypatch.setattr(module, "report_page", slow)
    threads = [threading.Thread(target=refresh_report, args=(tmp_path,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    assert page(tmp_path) == "a page"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def run(*words: str) -> object:
    with pytest.raises(SystemExit) as raised:
        main.main(list(words))
    return raised.value.code


def test_parity_writes_it_again(tmp_path: Path, project_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = write_build(tmp_path)
    result = parity(library("_C", case("scale[1]"))).model_copy(update={"sha256": file_digest(wheel)})
    monkeypatch.setattr("cpuwheels.pipeline.test_wheel.check_wheel", lambda *_: result)
    assert run("--root", str(project_root), "parity", "x86", "--wheel", str(wheel)) == 0
    assert "Parity passed" in page(tmp_path)
    assert 'href="parity.html"' in page(tmp_path)


def test_serving_writes_it_again_before_and_after(
    tmp_path: Path, project_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = write_build(tmp_path)
    (tmp_path / "serve.json").write_text("of an earlier run")
    refresh_report(tmp_path)
    assert "serve.json is of another version" in page(tmp_path)
    result = SimpleNamespace(as_text=lambda: "{}", as_table=lambda: Table(()))

    def serve(*_: object) -> tuple[object, Path]:
        assert "not run: nox -s serve-x86" in page(tmp_path)
        return result, tmp_path

    monkeypatch.setattr("cpuwheels.pipeline.serve_wheel.serve_wheel", serve)
    monkeypatch.setattr("cpuwheels.verification.serving.result.require_served", lambda *_: None)
    assert run("--root", str(project_root), "serve", "x86", "--wheel", str(wheel)) == 0
    assert "serve.json is of another version" in page(tmp_path)
