"""The pages for people in a real browser: accessible, no wider than the window, of use without scripts and in print.

Pictures are not compared: fonts differ from machine to machine, and so would every picture. What a picture would show
is measured: what is wider than the window, what covers other text, and what is hidden. With CPUWHEELS_SCREENSHOTS set
to a folder, a picture of each page is written there for people.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from chromium import Browser, Tab

PAGES = (
    *("report", "comparison", "parity", "rebuilt", "differs", "bisection", "suspects", "batch"),
    *("root", "day", "nightly", "commit"),
)
WITH_SCRIPT = ("parity", "bisection", "root", "day", "nightly", "commit")
WIDTHS = (1280, 390)
BETWEEN = (320, 700, 900)
"""Widths at which only the page's own width is measured; 320 is that of WCAG 1.4.10."""

RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
AXE = f"""
axe.run(document, {{runOnly: {{type: "tag", values: {list(RULES)}}}, resultTypes: ["violations"]}}).then(
  found => found.violations.flatMap(rule => rule.nodes.map(
    node => `${{rule.id}}: ${{node.target.join(" ")}}: ${{node.failureSummary}}`)))
"""
OPEN = "for (const one of document.querySelectorAll('details')) one.open = true"
"""What is folded away counts, too."""

WIDER = """
(width => [...document.querySelectorAll("body *")].filter(one => {
  const box = one.getBoundingClientRect();
  return box.width && box.right > width + 0.5 && !one.parentElement.closest(".scroll, svg");
}).map(one => `${one.tagName} ${one.className} ${one.textContent.trim().slice(0, 60)}`).slice(0, 8))
"""
"""Of a width, not of the window's: that of a phone grows with what is on it."""

NARROW = "(width => document.documentElement.scrollWidth <= width)"
UNNAMED = """
[
  ...[...document.querySelectorAll("table")].filter(one => !one.caption?.textContent.trim()).map(() => "no caption"),
  ...[...document.querySelectorAll("th")].filter(one => !one.scope).map(one => `no scope: ${one.textContent}`),
  ...[...document.querySelectorAll("[title]")].map(one => `only on hover: ${one.title}`),
]
"""
CLICKED = """
[...document.querySelectorAll("nav, .skip, .filter, button")].filter(one => one.checkVisibility())
  .map(one => one.outerHTML)
"""
CUT = """
[
  ...[...document.querySelectorAll(".scroll")].filter(one => getComputedStyle(one).overflow !== "visible"),
  ...[...document.querySelectorAll("details")].filter(one => !one.lastElementChild.checkVisibility()),
].map(one => one.outerHTML.slice(0, 90))
"""
"""What a printed page shows of a part, though it has more: boxes that scroll, and what is folded away."""

COLOUR_ALONE = """
[...document.querySelectorAll(".passed, .failed, .passed-in-part, .not-run, .good, .bad, .skipped, .wrong, .known")]
  .filter(one => !/[✓✗◐○▲▼]/u.test(one.textContent) && !one.closest(".legend li, li, dt, th")?.textContent
    .match(/[✓✗◐○▲▼]/u)).map(one => one.outerHTML.slice(0, 90))
"""


PLACE = """(() => {
  const one = document.activeElement;
  return one.closest("main") ? [...document.querySelectorAll("main *")].indexOf(one) : -1;
})()"""
"""Where the keyboard is, as a number in the order of the page; -1 outside of its main part."""


@contextmanager
def opened(browser: Browser, path: Path, width: int = 1280, **options: Any) -> Iterator[Tab]:
    tab = Tab(browser, path.as_uri(), width, **options)
    yield tab
    assert tab.faults == []
    tab.close()


def test_every_page_is_looked_at(pages: dict[str, Path]) -> None:
    assert set(pages) == set(PAGES)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("page", PAGES)
def test_it_is_accessible(
    browser: Browser, axe: str, pages: dict[str, Path], page: str, width: int, dark: bool
) -> None:
    with opened(browser, pages[page], width, dark=dark) as tab:
        if folder := os.environ.get("CPUWHEELS_SCREENSHOTS"):
            tab.screenshot(Path(folder) / f"{page}-{width}-{'dark' if dark else 'light'}.png")
        tab.evaluate(OPEN)
        tab.evaluate(axe)
        assert tab.evaluate(AXE) == []


@pytest.mark.parametrize("page", PAGES)
def test_it_is_no_wider_than_the_window(browser: Browser, pages: dict[str, Path], page: str) -> None:
    with opened(browser, pages[page]) as tab:
        for width in (*WIDTHS, *BETWEEN):
            tab.resize(width)
            for folded in (True, False):
                if not folded:
                    tab.evaluate(OPEN)
                assert tab.evaluate(f"{WIDER}({width})") == [], f"{width} px"
                assert tab.evaluate(f"{NARROW}({width})"), f"{width} px"


@pytest.mark.parametrize("page", PAGES)
def test_its_tables_and_verdicts_say_what_they_are(browser: Browser, pages: dict[str, Path], page: str) -> None:
    with opened(browser, pages[page]) as tab:
        assert tab.evaluate("document.title") != "evil"
        landmarks = "['header', 'main', 'h1'].map(name => document.querySelectorAll(name).length)"
        assert tab.evaluate(landmarks) == [1, 1, 1]
        assert tab.evaluate(UNNAMED) == []
        assert tab.evaluate(COLOUR_ALONE) == []


@pytest.mark.parametrize("page", PAGES)
def test_the_keyboard_goes_through_it_in_order(browser: Browser, pages: dict[str, Path], page: str) -> None:
    with opened(browser, pages[page]) as tab:
        tab.press("Tab")
        assert tab.evaluate("document.activeElement.className") == "skip"
        tab.press("Enter")
        assert tab.evaluate("document.activeElement.id") == "main"
        seen = []
        for _ in range(30):
            tab.press("Tab")
            seen.append(tab.evaluate(PLACE))
        seen = [place for place in seen if place >= 0]
        seen = seen[: next((at for at, place in enumerate(seen) if place in seen[:at]), None)]  # it begins anew
        assert seen == sorted(seen), "the order of the keyboard is not that of the page"
        assert seen


@pytest.mark.parametrize("page", PAGES)
def test_in_print_nothing_is_cut_off_and_nothing_asks_for_a_click(
    browser: Browser, pages: dict[str, Path], page: str
) -> None:
    with opened(browser, pages[page], 794, media="print", dark=True) as tab:
        assert tab.evaluate(CLICKED) == []
        assert tab.evaluate(CUT) == []
        assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)", "ink is dear"


class TestFilter:
    SHOWN = "[...document.querySelectorAll('{}')].filter(one => one.checkVisibility()).map(one => one.innerText)"
    ROWS, COLUMNS = SHOWN.format("tbody th"), SHOWN.format("thead th")

    @staticmethod
    def choose(tab: Tab, **values: str) -> None:
        for name, value in values.items():
            tab.evaluate(
                f"(field => {{ field.value = {value!r}; field.dispatchEvent(new Event('input', {{bubbles: true}})) }})"
                f"(document.querySelector('form.filter [name={name}]'))"
            )

    def test_the_root_by_target_verdict_and_text(self, browser: Browser, pages: dict[str, Path]) -> None:
        with opened(browser, pages["root"]) as tab:
            everything = tab.evaluate(self.ROWS)
            assert len(everything) == 13
            assert tab.evaluate(self.COLUMNS) == ["Commit or release", "Of", "x86", "arm", "s390x", "x86-avx2"]
            self.choose(tab, column="arm")
            assert tab.evaluate(self.COLUMNS) == ["Commit or release", "Of", "arm"]
            assert len(tab.evaluate(self.ROWS)) == 12, "one commit has nothing for it"
            self.choose(tab, verdict="no wheel: wrong")
            assert [row[:9] for row in tab.evaluate(self.ROWS)] == ["fffffffff"]
            self.choose(tab, column="x86", verdict="passed in part", text="NUMBER 5")
            assert [row[:9] for row in tab.evaluate(self.ROWS)] == ["555555555"]
            assert tab.evaluate("document.querySelector('form.filter [role=status]').textContent") == (
                "1 of 13 commits and releases"
            )
            tab.evaluate("document.querySelector('form.filter [type=reset]').click()")
            tab.evaluate("new Promise(done => setTimeout(done, 50))")
            assert tab.evaluate(self.ROWS) == everything

    def test_a_reason_is_found_by_its_text(self, browser: Browser, pages: dict[str, Path]) -> None:
        with opened(browser, pages["root"], 390) as tab:
            self.choose(tab, text="not compile")
            assert [row[:9] for row in tab.evaluate(self.ROWS)] == ["fffffffff"]

    def test_parity_by_operator_library_and_verdict(self, browser: Browser, pages: dict[str, Path]) -> None:
        with opened(browser, pages["parity"]) as tab:
            rows = self.SHOWN.format("#grid tbody th")
            columns = self.SHOWN.format("#grid thead th")
            self.choose(tab, verdict="wrong", column="_C")
            assert tab.evaluate(rows) == ["attention", "gelu", "none_at_all"]
            assert tab.evaluate(columns) == ["Operator", "_C"]
            self.choose(tab, text="att")
            assert tab.evaluate(rows) == ["attention"]

    @pytest.mark.parametrize("page", ["root", "day", "parity"])
    def test_without_the_script_all_is_there(self, browser: Browser, pages: dict[str, Path], page: str) -> None:
        with opened(browser, pages[page], scripts=False) as tab:
            hidden = "[...document.querySelectorAll('form.filter, button')].filter(one => one.checkVisibility()).length"
            assert tab.evaluate(hidden) == 0
            rows = "[...document.querySelectorAll('tbody tr')].filter(one => !one.checkVisibility()).length"
            assert tab.evaluate(rows) == 0


def test_the_head_of_the_parity_table_stays_in_view(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["parity"], 390) as tab:
        tab.evaluate("document.querySelector('.tall').scrollTo(200, 700)")
        place = """(() => {
          const box = document.querySelector(".tall").getBoundingClientRect();
          const head = document.querySelector("#grid thead th:first-child").getBoundingClientRect();
          return [head.top - box.top, head.left - box.left].map(Math.round);
        })()"""
        top, left = tab.evaluate(place)
        assert abs(top) <= 3
        assert abs(left) <= 3


@pytest.mark.parametrize("scripts", [True, False])
def test_the_text_for_an_issue_can_be_copied(browser: Browser, pages: dict[str, Path], scripts: bool) -> None:
    with opened(browser, pages["bisection"], scripts=scripts) as tab:
        code = "document.querySelector('#issue .command code')"
        tab.evaluate(f"getSelection().selectAllChildren({code})")
        text = tab.evaluate("getSelection().toString()")
        assert "is the first bad commit" in text
        assert "| commit | verdict | why |" in text
        button = tab.evaluate("document.querySelector('#issue button').checkVisibility()")
        assert button is scripts


@pytest.mark.parametrize("page", WITH_SCRIPT)
def test_buttons_copy(browser: Browser, pages: dict[str, Path], page: str) -> None:
    with opened(browser, pages[page]) as tab:
        buttons = "document.querySelectorAll('.command button')"
        count = tab.evaluate(f"{buttons}.length")
        if page in {"parity", "day"}:
            assert count == 0
            return
        assert count
        tab.evaluate(f"{buttons}[0].click()")
        tab.evaluate("new Promise(done => setTimeout(done, 100))")
        assert tab.evaluate(f"{buttons}[0].textContent") in {"copied", "press Ctrl+C"}
        assert tab.evaluate("getSelection().toString()").strip() == (
            tab.evaluate("document.querySelector('.command code').innerText").strip()
        )


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        ("one('form.filter label').replaceWith(one('form.filter select'))", "select-name"),
        ("one('main p').style.color = '#bbb'", "color-contrast"),
        ("document.documentElement.removeAttribute('lang')", "html-has-lang"),
        ("one('main').replaceWith(...one('main').children)", "region"),
        ("one('#gaps ul').style.cssText = 'overflow: auto; height: 20px'", "scrollable-region-focusable"),
    ],
)
def test_what_is_broken_is_found(browser: Browser, axe: str, pages: dict[str, Path], broken: str, rule: str) -> None:
    with opened(browser, pages["parity"]) as tab:
        tab.evaluate(f"(one => void ({broken}))(name => document.querySelector(name))")
        tab.evaluate(axe)
        assert rule in {found.partition(":")[0] for found in tab.evaluate(AXE)}


def test_what_is_too_wide_unnamed_or_coloured_alone_is_found(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["root"], 390) as tab:
        tab.evaluate("document.querySelector('h2').style.width = '700px'")
        assert tab.evaluate(f"{WIDER}(390)")[0].startswith("H2")
        assert not tab.evaluate(f"{NARROW}(390)")
        tab.evaluate("document.querySelector('caption').remove()")
        tab.evaluate("document.querySelector('th').removeAttribute('scope')")
        tab.evaluate("document.querySelector('td').title = 'why'")
        assert [fault.partition(":")[0] for fault in tab.evaluate(UNNAMED)] == [
            "no caption",
            "no scope",
            "only on hover",
        ]
        tab.evaluate("document.querySelector('#commits td .verdict').textContent = 'passed'")
        assert len(tab.evaluate(COLOUR_ALONE)) == 1
