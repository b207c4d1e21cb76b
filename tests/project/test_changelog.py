"""CHANGELOG.md: what a release needs of it, and how it is made ready for one."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from changelog import (
    UNRELEASED,
    ChangelogError,
    check_changelog,
    has_entries,
    merged,
    prepared,
    section,
    sections,
    upcoming,
)

from layout import ROOT
from markdown_pages import links

HEAD = "# Changelog\n\nThe format.\n\n"
CHANGELOG = f"""\
{HEAD}## [Unreleased]

## [1.1.0]

### Added

- Something.

## [1.0.0] - 2026-11-24

### Added

- The first.

## [0.9.0] - 2026-11-01

### Added
"""
OURS = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "dated", "message"),
    [
        ("1.0.0", True, ""),
        ("1.1.0", False, ""),
        ("1.1.0", True, "needs its date"),
        ("0.9.0", True, "is empty"),
        ("Unreleased", False, "is empty"),
        ("2.0.0", True, "has no section"),
        ("1.0", True, "has no section"),
    ],
)
def test_a_release_needs_a_section(name: str, dated: bool, message: str) -> None:
    if message:
        with pytest.raises(ChangelogError, match=message):
            check_changelog(CHANGELOG, name, dated=dated)
    else:
        check_changelog(CHANGELOG, name, dated=dated)


def test_nothing_is_left_unreleased_when_a_release_is_made() -> None:
    text = CHANGELOG.replace("[Unreleased]\n", "[Unreleased]\n\n### Fixed\n\n- This.\n")
    check_changelog(text, "1.0.0", dated=False)
    with pytest.raises(ChangelogError, match=r"has entries in \[Unreleased\], which --prepare 1\.0\.0 moves"):
        check_changelog(text, "1.0.0", dated=True)


def test_a_section_is_there_once() -> None:
    with pytest.raises(ChangelogError, match=r"several sections \[1\.0\.0\]"):
        section(CHANGELOG + "\n## [1.0.0]\n\n- Again.\n", "1.0.0")


@pytest.mark.parametrize(
    ("released", "version"), [(set(), "1.1.0"), ({"1.0.0"}, "1.1.0"), ({"1.1.0"}, ""), ({"1.1.0", "1.0.0"}, "")]
)
def test_the_release_that_is_prepared_is_on_top(released: set[str], version: str) -> None:
    assert upcoming(CHANGELOG, released) == version


def test_without_a_section_none_is_prepared() -> None:
    assert upcoming(HEAD + "## [Unreleased]\n\n- This.\n", set()) == ""


def test_what_is_unreleased_becomes_a_section_of_its_own() -> None:
    text = HEAD + "## [Unreleased]\n\n### Added\n\n- This.\n\n## [1.0.0] - 2026-11-24\n\n- First.\n"
    assert prepared(text, "1.1.0", "2026-12-01") == (
        HEAD
        + "## [Unreleased]\n\n## [1.1.0] - 2026-12-01\n\n### Added\n\n- This.\n\n## [1.0.0] - 2026-11-24\n\n- First.\n"
    )


def test_what_is_unreleased_joins_a_section_that_is_there() -> None:
    text = HEAD + (
        "## [Unreleased]\n\n### Fixed\n\n- New fault.\n\n### Added\n\n- New thing,\n  of two lines.\n\n"
        "## [1.1.0]\n\nWhat it is.\n\n### Added\n\n- Old thing.\n\n### Security\n\n- Old hole.\n\n"
        "## [1.0.0] - 2026-11-24\n\n- First.\n"
    )
    wanted = HEAD + (
        "## [Unreleased]\n\n## [1.1.0] - 2026-12-01\n\nWhat it is.\n\n### Added\n\n- New thing,\n  of two lines.\n"
        "- Old thing.\n\n### Fixed\n\n- New fault.\n\n### Security\n\n- Old hole.\n\n"
        "## [1.0.0] - 2026-11-24\n\n- First.\n"
    )
    assert prepared(text, "1.1.0", "2026-12-01") == wanted
    assert prepared(wanted, "1.1.0", "2026-12-01") == wanted, "it may be done again"
    assert "- 2026-12-02" in prepared(wanted, "1.1.0", "2026-12-02")


def test_nothing_is_no_release() -> None:
    with pytest.raises(ChangelogError, match="nothing to release"):
        prepared(HEAD + "## [Unreleased]\n\n### Added\n", "1.0.0", "2026-12-01")
    with pytest.raises(ChangelogError, match="no section"):
        prepared(HEAD, "1.0.0", "2026-12-01")


def test_headings_are_in_the_usual_order_and_others_behind_them() -> None:
    assert merged("### Odd\n\n- d\n\n### Security\n\n- c", "### Added\n\n- a") == (
        "### Added\n\n- a\n\n### Security\n\n- c\n\n### Odd\n\n- d"
    )


def test_our_changelog_says_what_comes_next() -> None:
    topmost = sections(OURS)[:2]
    assert topmost[0].name == UNRELEASED
    assert any(map(has_entries, topmost))


def test_no_line_of_our_changelog_is_lost_when_a_release_is_prepared() -> None:
    def said(text: str) -> Counter[str]:
        return Counter(line for line in text.splitlines() if line and not line.startswith("#"))

    version = sections(OURS)[1].name
    ready = prepared(OURS, version, "2026-12-01")
    assert said(ready) == said(OURS)
    check_changelog(ready, version, dated=True)


def test_the_notes_of_a_release_can_be_read_anywhere() -> None:
    """They are shown on the page of a release, where a link to a file of the repository leads nowhere."""
    for one in sections(OURS):
        assert [link for link in links(one.body) if not re.match("https?:", link)] == [], one.name
