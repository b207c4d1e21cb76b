"""The pages for people."""

from __future__ import annotations

import re

import pytest
from pydantic import ValidationError

from cpuwheels.index.commit_pages import Commits, Missing, Row, row_of
from cpuwheels.index.entry import Reproduced, Speed
from cpuwheels.index.html import root_page, speed_words, view_page
from index_entries import COMMIT, entry


def test_the_root_shows_targets_and_commits() -> None:
    commits = Commits().with_row(row_of(entry(parity="passed", size=19 << 20)))
    release = entry(version="0.32.0+cpu", commit=None, target="arm", made="2026-10-01T00:00:00Z")
    ((path, page),) = root_page(commits.with_row(row_of(release)), []).items()
    assert path == "index.html"
    assert f'href="{COMMIT}/"' in page
    assert 'href="0.32.0/"' in page
    assert re.findall(r"<th[^>]*>(\w+)</th>", page) == ["source", "of", "arm", "x86"]
    assert '<span class="passed">✓</span> 19 MiB' in page
    assert f"vllm==0.32.1.dev5+gccccccccc.cpu --index INDEX_URL/{COMMIT}/cpu" in page


def test_a_commit_shows_its_wheels_and_reports() -> None:
    arm = entry(target="arm", filename="vllm-0.32.1.dev5+gccccccccc.cpu-cp38-abi3-manylinux_2_27_aarch64.whl")
    ((path, page),) = view_page(COMMIT, [entry(beside=("record.json",), parity="passed"), arm]).items()
    assert path == f"{COMMIT}/index.html"
    assert page.index("<h2>arm</h2>") < page.index("<h2>x86</h2>")
    assert f'href="../files/{"a" * 16}/record.json"' in page
    assert "every case was right, on each of its libraries" in page
    assert page.count('Serving: <span class="not-run">not tested</span>') == 2
    assert COMMIT in page


@pytest.mark.parametrize(
    ("fixed", "words"), [(None, ""), (0, "no fault of theirs is fixed"), (38, "kernels that are fixed: 38")]
)
def test_a_commit_shows_whose_kernels_a_wheel_has(fixed: int | None, words: str) -> None:
    ((_, page),) = view_page(COMMIT, [entry(fixed_faults=fixed)]).items()
    assert words in page
    assert ("upstream's kernels" in page.lower()) is bool(words)


def test_nothing_is_asked_of_another_server() -> None:
    pages = root_page(Commits().with_row(row_of(entry())), []) | view_page(COMMIT, [entry()])
    for page in pages.values():
        assert not re.search(r"(src|href)=\"(https?:)?//", page)
        assert "@import" not in page
        assert 'name="viewport"' in page


def test_what_others_wrote_is_escaped() -> None:
    with pytest.raises(ValidationError, match="beside"):
        entry(beside=("<b>.html",))
    measured = Speed(against="before.whl", ratio=0.9, slower=("<b>",))
    ((_, page),) = view_page("v", [entry(speed=measured)]).items()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page


def test_the_root_shows_speeds_and_leads_to_reports() -> None:
    measured = Speed(against="before.whl", ratio=0.914, slower=("rms_norm", "silu_and_mul"))
    one = entry(parity="passed", served="passed", speed=measured, beside=("parity.html", "speed.json", "serve.json"))
    arm = entry(
        target="arm",
        filename="vllm-0.32.1.dev5+gccccccccc.cpu-cp38-abi3-manylinux_2_27_aarch64.whl",
        sha256="e" * 64,
        speed=Speed(against="before.whl"),
    )
    ((_, page),) = root_page(Commits().with_row(row_of(one)).with_row(row_of(arm)), []).items()
    folder = f"files/{'a' * 16}"
    assert f'<a href="{folder}/parity.html"><span class="passed">✓</span></a>' in page
    slower = 'class="failed" title="slower: rms_norm, silu_and_mul"'
    assert f'<a href="{folder}/speed.json" {slower}>0.91\N{MULTIPLICATION SIGN}</a>' in page
    assert f'<a href="{folder}/serve.json">served</a>' in page
    assert page.count(">served<") == 1
    assert '<span class="not-run">○</span> 7 B <span class="dim">=</span>' in page


def test_the_root_shows_what_could_not_be_made() -> None:
    why = {
        "arm": Missing(state="failed", reason="ops.cpp <does not> compile", tried="2026-11-23T05:00:00Z"),
        "x86": Missing(state="wrong", reason="2 operators", tried="2026-11-23T05:00:00Z"),
    }
    row = Row(commit=COMMIT, version="", made="2026-11-22T23:00:00Z", missing=why)
    commits = Commits().with_row(row)
    ((_, page),) = root_page(commits, []).items()
    assert f"<code>{COMMIT[:9]}</code></td>" in page
    assert f"{COMMIT}/" not in page  # it has no page
    assert 'title="ops.cpp &lt;does not&gt; compile">✗ not built</span>' in page
    assert "✗ wrong results" in page
    ((_, page),) = root_page(commits.with_row(row_of(entry(parity="passed"))), []).items()
    assert f'href="{COMMIT}/"' in page
    assert "✗ not built" in page
    assert "✗ wrong results" not in page


def test_what_came_of_a_second_build() -> None:
    ((_, page),) = view_page("v", [entry()]).items()
    assert 'Built a second time: <span class="not-run">not yet</span>' in page
    came = Reproduced(state="reproduced", moment="2026-11-25T03:00:00Z", varied=("umask", "time"), not_varied=("cpus",))
    ((_, page),) = view_page("v", [entry(reproduced=came)]).items()
    words = "the same bytes, on 2026-11-25, with other umask, time; could not be varied there: cpus"
    assert f'<span class="passed">{words}</span>' in page
    other = came.model_copy(update={"state": "differs", "not_varied": ()})
    ((_, page),) = view_page("v", [entry(reproduced=other)]).items()
    assert '<span class="failed">other bytes, on 2026-11-25, with other umask, time</span>' in page


@pytest.mark.parametrize(
    ("state", "shown"), [("reproduced", ">reproduced</a>"), ("differs", ' class="failed">differs</a>')]
)
def test_the_root_leads_to_what_came_of_a_second_build(state: str, shown: str) -> None:
    came = Reproduced(state=state, moment="2026-11-25T03:00:00Z", varied=("umask",))
    ((_, page),) = root_page(Commits().with_row(row_of(entry(reproduced=came, beside=("verify.json",)))), []).items()
    assert f'<a href="files/{"a" * 16}/verify.json"{shown}' in page
    ((_, page),) = root_page(Commits().with_row(row_of(entry())), []).items()
    assert "verify.json" not in page


def test_a_page_says_whether_a_build_was_locked() -> None:
    words = "Only what is listed with its digest was fetched"
    for locked, shown in (
        (True, '<span class="passed">yes</span>'),
        (False, '<span class="not-run">not enforced</span>'),
    ):
        ((_, page),) = view_page("v", [entry(locked=locked)]).items()
        assert f"{words}: {shown}" in page
    ((_, page),) = view_page("v", [entry()]).items()
    assert words not in page


def test_what_confined_the_build() -> None:
    ((_, page),) = view_page("v", [entry(sandbox="not sandboxed")]).items()
    assert 'Built in a sandbox: <span class="failed">no</span>' in page
    ((_, page),) = view_page("v", [entry(sandbox="bubblewrap with a user namespace")]).items()
    assert 'Built in a sandbox: <span class="passed">bubblewrap with a user namespace</span>' in page
    ((_, page),) = view_page("v", [entry()]).items()
    assert "sandbox" not in page


def test_the_speed_in_words() -> None:
    assert speed_words(Speed(against="a.whl")) == "the same kernels as in a.whl"
    said = speed_words(Speed(against="a.whl", ratio=1.0249))
    assert said == "1.02 times as fast as in a.whl (geometric mean of all operators; no operator is certainly slower)"
    assert "certainly slower: rms_norm)" in speed_words(Speed(against="a.whl", ratio=1, slower=("rms_norm",)))
    ((_, page),) = view_page("v", [entry(speed=Speed(against="a.whl"))]).items()
    assert "Speed: the same kernels as in a.whl" in page
