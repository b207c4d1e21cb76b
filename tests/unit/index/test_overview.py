"""The pages for people that list commits."""

from __future__ import annotations

import re

import pytest

from cpuwheels.index.agreement import Agreement, Finding
from cpuwheels.index.commit_pages import Commits, Day, Missing, Row, row_of
from cpuwheels.index.entry import Reproduced, Speed
from cpuwheels.index.overview import day_pages, root_page, targets_of
from html_anchors import links
from index_entries import COMMIT, entry

DAY = "commits/2026-11-22.html"
ARM = "vllm-0.32.1.dev5+gccccccccc.cpu-cp38-abi3-manylinux_2_27_aarch64.whl"


def mark(kind: str, shape: str, words: str) -> str:
    return f'<span class="verdict {kind}"><span aria-hidden="true">{shape}</span> {words}</span>'


def test_the_root_shows_targets_and_commits() -> None:
    commits = Commits().with_row(row_of(entry(parity="passed", size=19 << 20)))
    release = entry(version="0.32.0+cpu", commit=None, target="arm", made="2026-10-01T00:00:00Z")
    ((path, page),) = root_page(commits.with_row(row_of(release)), []).items()
    assert path == "index.html"
    assert f'href="{COMMIT}/"' in page
    assert 'href="0.32.0/"' in page
    assert re.findall(r"<th[^>]*>(\w+)</th>", page) == ["Of", "x86", "arm"]
    assert f'{mark("passed", "✓", "passed")} <span class="short">19 MiB</span>' in page
    assert f"vllm==0.32.1.dev5+gccccccccc.cpu --index INDEX_URL/{COMMIT}/cpu" in page


def test_the_root_shows_speeds_and_leads_to_reports() -> None:
    measured = Speed(against="before.whl", ratio=0.914, slower=("rms_norm", "silu_and_mul"))
    one = entry(parity="passed", served="passed", speed=measured, beside=("parity.html", "speed.json", "serve.json"))
    arm = entry(target="arm", filename=ARM, sha256="e" * 64, speed=Speed(against="before.whl"))
    ((_, page),) = root_page(Commits().with_row(row_of(one)).with_row(row_of(arm)), []).items()
    folder = f"files/{'a' * 16}"
    assert f'<a href="{folder}/parity.html">{mark("passed", "✓", "passed")}</a>' in page
    assert f'<a href="{folder}/speed.json" class="failed short">▼ slower 0.91\N{MULTIPLICATION SIGN}</a>' in page
    assert "slower: rms_norm, silu_and_mul</p>" in page
    assert f'<a href="{folder}/serve.json">served</a>' in page
    assert page.count(">served</a>") == 1
    other = f'{mark("not-run", "○", "not tested")} <span class="short">7 B</span>'
    assert f'{other} <span class="dim">= as before</span>' in page


def test_the_root_shows_what_could_not_be_made() -> None:
    why = {
        "arm": Missing(state="failed", reason="ops.cpp <does not> compile", tried="2026-11-23T05:00:00Z"),
        "x86": Missing(state="wrong", reason="2 operators", tried="2026-11-23T05:00:00Z"),
    }
    row = Row(commit=COMMIT, version="", made="2026-11-22T23:00:00Z", missing=why)
    commits = Commits().with_row(row)
    ((_, page),) = root_page(commits, []).items()
    assert f"<code>{COMMIT[:9]}</code></th>" in page
    assert f"{COMMIT}/" not in page  # it has no page
    assert f'{mark("failed", "✗", "not built")}<p class="dim">ops.cpp &lt;does not&gt; compile</p>' in page
    assert mark("failed", "✗", "wrong results") in page
    assert "title=" not in page
    ((_, page),) = root_page(commits.with_row(row_of(entry(parity="passed"))), []).items()
    assert f'href="{COMMIT}/"' in page
    assert mark("failed", "✗", "not built") in page
    assert "wrong results" not in page


@pytest.mark.parametrize(
    ("state", "shown"), [("reproduced", ">reproduced</a>"), ("differs", ' class="failed short">✗ differs</a>')]
)
def test_the_root_leads_to_what_came_of_a_second_build(state: str, shown: str) -> None:
    came = Reproduced(state=state, moment="2026-11-25T03:00:00Z", varied=("umask",))
    ((_, page),) = root_page(Commits().with_row(row_of(entry(reproduced=came, beside=("verify.json",)))), []).items()
    assert f'<a href="files/{"a" * 16}/verify.json"{shown}' in page
    ((_, page),) = root_page(Commits().with_row(row_of(entry())), []).items()
    assert "verify.json" not in page


def test_a_long_reason_is_shortened_and_can_be_opened() -> None:
    reason = "<i> " + "x" * 300
    why = {"arm": Missing(state="failed", reason=reason, tried="2026-11-23T05:00:00Z")}
    row = Row(commit=COMMIT, version="", made="2026-11-22T23:00:00Z", missing=why)
    ((_, page),) = root_page(Commits().with_row(row), []).items()
    shown = re.findall(r"<summary class=\"dim\">&lt;i&gt; (x+)…</summary>", page)
    assert [len(text) for text in shown] == [155]
    assert f'<p class="dim">&lt;i&gt; {"x" * 300}</p></details>' in page


def test_a_commit_has_its_subject_escaped() -> None:
    one = row_of(entry(subject="[CPU] <script>alert(1)</script>"))
    for page in (*root_page(Commits().with_row(one), []).values(), day_pages("2026-11-22", Day(rows=(one,)))[DAY]):
        assert f"<code>{COMMIT[:9]}</code></a> [CPU] &lt;script&gt;alert(1)&lt;/script&gt;</th>" in page
        assert "<script>alert" not in page


def test_a_day_has_a_page_that_leads_where_the_root_does() -> None:
    wheel = row_of(entry(parity="passed", beside=("parity.html",)))
    commits = Commits().with_row(wheel)
    ((_, root),) = root_page(commits, []).items()
    assert DAY in links(root)
    pages = day_pages("2026-11-22", Day(rows=commits.newest))
    assert list(pages) == ["commits/2026-11-22.json", DAY]
    folder = f"../files/{'a' * 16}"
    assert {"../", f"../{COMMIT}/", f"{folder}/parity.html", "2026-11-22.json"} < set(links(pages[DAY]))
    assert Day.model_validate_json(pages["commits/2026-11-22.json"]).rows == commits.newest


def test_days_are_listed_by_month_the_newest_open() -> None:
    commits = Commits()
    for day in ("2026-10-31", "2026-11-01", "2026-11-02"):
        commits = commits.with_row(row_of(entry(made=f"{day}T00:00:00Z")))
    ((_, page),) = root_page(commits, []).items()
    assert re.findall(r"<details( open)?><summary>([\d-]+)</summary>", page) == [(" open", "2026-11"), ("", "2026-10")]
    days = [f"commits/{day}.html" for day in ("2026-11-02", "2026-11-01", "2026-10-31")]
    assert [link for link in links(page) if link.startswith("commits/")] == days


def test_the_filter_offers_what_is_there() -> None:
    why = {"arm": Missing(state="wrong", reason="2 operators", tried="2026-11-23T05:00:00Z")}
    row = Row(commit="d" * 40, version="", made="2026-11-22T23:00:00Z", missing=why)
    ((_, page),) = root_page(Commits().with_row(row).with_row(row_of(entry(parity="passed in part"))), []).items()
    choices = re.findall(r'<option value="([^"]*)">', page)
    assert choices == ["", "x86", "arm", "", "passed in part", "no wheel: wrong"]
    assert re.findall(r'data-verdict="([^"]*)"', page) == ["", "no wheel: wrong", "passed in part", ""]
    assert '<form class="filter"' in page
    assert re.search(r'<form class="filter"[^>]* hidden>', page), "without the script there is no filter to use"


def test_targets_have_an_order() -> None:
    rows = [row_of(entry(target=target)) for target in ("arm", "x86-avx2", "x86", "s390x")]
    assert targets_of(rows) == ["x86", "arm", "s390x", "x86-avx2"]


def test_who_got_other_bytes_is_shown() -> None:
    found = Finding(name="them", keyid="ab", state="differs", rebuilt="f" * 64, moment="2026-11-23T05:00:00Z")
    one = row_of(entry(rebuilds=Agreement(findings=(found,), silent=("others",))))
    ((_, page),) = root_page(Commits().with_row(one), []).items()
    assert '<span class="short failed">✗ 0/2 rebuilt</span><p class="dim">other bytes: them</p>' in page
