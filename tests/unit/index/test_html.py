"""The pages for people."""

from __future__ import annotations

import re

import pytest
from pydantic import ValidationError

from cpuwheels.index.commit_pages import Commits, row_of
from cpuwheels.index.entry import Reproduced, Speed
from cpuwheels.index.html import speed_words, view_page
from cpuwheels.index.overview import root_page
from index_entries import COMMIT, entry


def test_a_commit_shows_its_wheels_and_reports() -> None:
    arm = entry(target="arm", filename="vllm-0.32.1.dev5+gccccccccc.cpu-cp38-abi3-manylinux_2_27_aarch64.whl")
    ((path, page),) = view_page(COMMIT, [entry(beside=("record.json",), parity="passed"), arm]).items()
    assert path == f"{COMMIT}/index.html"
    assert page.index("<h2>x86</h2>") < page.index("<h2>arm</h2>")
    assert f'href="../files/{"a" * 16}/record.json"' in page
    assert "every case was right, on each of its libraries" in page
    assert page.count('Serving: <span class="not-run">○ not tested</span>') == 2
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


def test_what_came_of_a_second_build() -> None:
    ((_, page),) = view_page("v", [entry()]).items()
    assert 'Built a second time: <span class="not-run">○ not yet</span>' in page
    came = Reproduced(state="reproduced", moment="2026-11-25T03:00:00Z", varied=("umask", "time"), not_varied=("cpus",))
    ((_, page),) = view_page("v", [entry(reproduced=came)]).items()
    words = "the same bytes, on 2026-11-25, with other umask, time; could not be varied there: cpus"
    assert f'<span class="passed">✓ {words}</span>' in page
    other = came.model_copy(update={"state": "differs", "not_varied": ()})
    ((_, page),) = view_page("v", [entry(reproduced=other)]).items()
    assert '<span class="failed">✗ other bytes, on 2026-11-25, with other umask, time</span>' in page


def test_a_page_says_whether_a_build_was_locked() -> None:
    words = "Only what is listed with its digest was fetched"
    for locked, shown in (
        (True, '<span class="passed">✓ yes</span>'),
        (False, '<span class="not-run">○ not enforced</span>'),
    ):
        ((_, page),) = view_page("v", [entry(locked=locked)]).items()
        assert f"{words}: {shown}" in page
    ((_, page),) = view_page("v", [entry()]).items()
    assert words not in page


def test_what_confined_the_build() -> None:
    ((_, page),) = view_page("v", [entry(sandbox="not sandboxed")]).items()
    assert 'Built in a sandbox: <span class="failed">✗ no</span>' in page
    ((_, page),) = view_page("v", [entry(sandbox="bubblewrap with a user namespace")]).items()
    assert 'Built in a sandbox: <span class="passed">✓ bubblewrap with a user namespace</span>' in page
    ((_, page),) = view_page("v", [entry()]).items()
    assert "sandbox" not in page


def test_the_speed_in_words() -> None:
    assert speed_words(Speed(against="a.whl")) == "the same kernels as in a.whl"
    said = speed_words(Speed(against="a.whl", ratio=1.0249))
    assert said == "1.02 times as fast as in a.whl (geometric mean of all operators; no operator is certainly slower)"
    assert "certainly slower: rms_norm)" in speed_words(Speed(against="a.whl", ratio=1, slower=("rms_norm",)))
    ((_, page),) = view_page("v", [entry(speed=Speed(against="a.whl"))]).items()
    assert "Speed: the same kernels as in a.whl" in page
