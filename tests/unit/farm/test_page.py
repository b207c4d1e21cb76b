"""The page of a batch: what is shown of jobs that wait, run and are done, whatever their names and errors have."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import CompileError
from cpuwheels.farm.batch import Came, run_batch
from cpuwheels.farm.done import Done
from cpuwheels.farm.journal import Journal
from cpuwheels.farm.local import LocalExecutor
from cpuwheels.farm.page import PAGE, BatchPage
from farms import events_in, jobs_for, machine, paths_in, site_in, wait_for

EVIL = "<script>alert(1)</script>"


def rows(page: Path) -> dict[str, str]:
    """Return the text of each row by its source and job."""
    text = page.read_text().partition("<tbody>")[2]
    found = {}
    for row in re.findall(r"<tr>(.*?)</tr>", text, re.DOTALL):
        cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        texts = [re.sub(r"<[^>]*>", "", cell).strip() for cell in cells]
        found[f"{texts[0]} {texts[2]}"] = " | ".join(texts[3:])
    return found


def test_each_state_is_shown_as_it_comes(tmp_path: Path) -> None:
    jobs = jobs_for("a", "b", EVIL)
    with BatchPage(tmp_path, jobs, pause=0.01) as page:
        assert page.path == tmp_path / PAGE
        assert set(rows(page.path).values()) == {"\u25cb waiting |  |  | "}
        assert "location.reload" in page.path.read_text()
        page.began(jobs[0].key, "one")
        wait_for(lambda: "one" in rows(page.path)["a wheel"])
        assert re.fullmatch(r"\u25b6 running since [0-9:]{8} \|  \| one \| ", rows(page.path)["a wheel"])
        page.began(jobs[0].key, "two")
        done = Done(jobs[0].key, folder="x86/1.0", wheel="vllm-1.0.whl", seconds=61.0, by="two")
        page.came(Came(jobs[0], "done", done))
        page.came(Came(jobs[1], "failed", Done(jobs[1].key, 31, by="one"), CompileError(f"{EVIL} does not compile")))
        wait_for(lambda: "failed" in rows(page.path)["b wheel"])
        assert rows(page.path)["a wheel"] == "\u2713 done | 1:01 | two | vllm-1.0.whl"
        assert '<a href="../x86/1.0/vllm-1.0.whl">' in page.path.read_text()
        assert "\u2717 failed" in rows(page.path)["b wheel"]
        page.began(jobs[0].key, "three")
        page.began(jobs[2].key, "three")
        wait_for(lambda: "three" in str(rows(page.path)))
        assert "two" in rows(page.path)["a wheel"], "what is done does not begin again"
    text = page.path.read_text()
    assert EVIL not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; does not compile" in text
    assert "location.reload" not in text, "nothing more happens"
    assert "Ended " in text
    assert "running" not in text, "what was given up does not run"


def test_who_tells_of_a_job_waits_for_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = jobs_for("a", "b", "c")
    writes: list[int] = []
    monkeypatch.setattr("cpuwheels.farm.page.write_atomic", lambda *_: writes.append(threading.get_ident()))
    with BatchPage(tmp_path, jobs, pause=60) as page:
        for job in jobs:
            page.began(job.key, "one")
        assert len(writes) == 1, "the first page, before anything is told"
    assert len(writes) == 2, "and the last one"


def test_a_page_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "farm").write_text("a file")
    jobs = jobs_for("a")
    with BatchPage(tmp_path, jobs) as page:
        page.began(jobs[0].key, "one")
    assert (tmp_path / "farm").read_text() == "a file"


@pytest.mark.parametrize("again", [False, True])
def test_a_batch_has_one(tmp_path: Path, reporter: Reporter, again: bool) -> None:
    jobs, paths = jobs_for("a", level="smoke"), paths_in(tmp_path)
    for _ in range(2 if again else 1):
        with LocalExecutor(site_in(tmp_path), machine(), pause=lambda _: None) as executor:
            run_batch(jobs, executor, Journal(paths.dist), paths, reporter)
    found = rows(paths.dist / PAGE)
    word = "there" if again else "done"
    assert found["a wheel"].startswith(f"\u2713 {word} | ")
    assert found["a parity"].startswith(f"\u2713 {word} | ")


def test_what_runs_is_shown_while_it_runs(tmp_path: Path, reporter: Reporter) -> None:
    jobs, paths = jobs_for("a"), paths_in(tmp_path)
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "hang-a").touch()

    def run() -> None:
        with LocalExecutor(site_in(tmp_path), machine(), pause=lambda _: None) as executor:
            run_batch(jobs, executor, Journal(paths.dist), paths, reporter)

    running = threading.Thread(target=run)
    running.start()
    try:
        wait_for(lambda: events_in(tmp_path / "events"))
        wait_for(lambda: "running since" in rows(paths.dist / PAGE)["a wheel"])
    finally:
        (tmp_path / "events" / "hang-a").unlink()
        running.join(60)
    assert "done" in rows(paths.dist / PAGE)["a wheel"]
