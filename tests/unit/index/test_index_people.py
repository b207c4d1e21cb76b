"""The pages for people."""

from __future__ import annotations

import re

from test_index_pages import COMMIT, entry

from cpuwheels.index.commits import Commits
from cpuwheels.index.people import root_page, view_page


def test_the_root_shows_targets_and_commits() -> None:
    commits = Commits().with_entry(entry(parity="passed", size=19 << 20))
    release = entry(version="0.32.0+cpu", commit=None, target="arm", made="2026-10-01T00:00:00Z")
    ((path, page),) = root_page(commits.with_entry(release)).items()
    assert path == "index.html"
    assert f'href="{COMMIT}/"' in page
    assert 'href="0.32.0/"' in page
    assert re.findall(r"<th>(\w+)</th>", page) == ["source", "of", "arm", "x86"]
    assert '<span class="passed">✓</span> 19 MiB' in page
    assert "nightly/cpu" in page


def test_a_commit_shows_its_wheels_and_reports() -> None:
    arm = entry(target="arm", filename="vllm-0.32.1.dev5+gccccccccc.cpu-cp38-abi3-manylinux_2_27_aarch64.whl")
    ((path, page),) = view_page(COMMIT, [entry(beside=("record.json",), parity="passed"), arm]).items()
    assert path == f"{COMMIT}/index.html"
    assert page.index("<h2>arm</h2>") < page.index("<h2>x86</h2>")
    assert f'href="../files/{"a" * 16}/record.json"' in page
    assert "every result was right" in page
    assert COMMIT in page


def test_nothing_is_asked_of_another_server() -> None:
    pages = root_page(Commits().with_entry(entry())) | view_page(COMMIT, [entry()])
    for page in pages.values():
        assert not re.search(r"(src|href)=\"(https?:)?//", page)
        assert "@import" not in page
        assert 'name="viewport"' in page


def test_what_others_wrote_is_escaped() -> None:
    ((_, page),) = view_page("v", [entry(beside=("<b>.html",))]).items()
    assert "<b>" not in page
