"""CHANGELOG.md: its sections, what a release needs of them, and the section of the next release."""

from __future__ import annotations

import re
from dataclasses import dataclass

UNRELEASED = "Unreleased"
ORDER = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
"""Headings within a section, as Keep a Changelog has them."""

_SECTION = re.compile(r"^## \[([^\]]+)\](.*)$", re.MULTILINE)
_PART = re.compile(r"^### (.+)$", re.MULTILINE)
_DATED = re.compile(r" - \d{4}-\d{2}-\d{2}")


class ChangelogError(Exception):
    """The changelog is not as it has to be."""


@dataclass(frozen=True)
class Section:
    """A section of the changelog.

    Attributes:
        name: The version, or "Unreleased".
        rest: What its heading has behind the name.
        body: The text below the heading, without blank lines around it.
    """

    name: str
    rest: str
    body: str


def sections(text: str) -> list[Section]:
    """Return the sections of a changelog in their order."""
    pieces = _SECTION.split(text)
    return [Section(pieces[at], pieces[at + 1], pieces[at + 2].strip()) for at in range(1, len(pieces), 3)]


def section(text: str, name: str) -> Section:
    """Return a section by its name.

    Raises:
        ChangelogError: There is none, or several.
    """
    found = [one for one in sections(text) if one.name == name]
    if len(found) != 1:
        raise ChangelogError(f"CHANGELOG.md has {'no section' if not found else 'several sections'} [{name}]")
    return found[0]


def check_changelog(text: str, name: str, *, dated: bool) -> None:
    """Check that a section of the changelog is there and says something.

    Args:
        text: The changelog.
        name: The version, or "Unreleased".
        dated: Whether the heading needs a date, and everything of "Unreleased" has to be in the section.

    Raises:
        ChangelogError: It is missing or empty, or has no date, or something is left to release.
    """
    found = section(text, name)
    if not has_entries(found):
        raise ChangelogError(f"section [{name}] of CHANGELOG.md is empty")
    if not dated:
        return
    if not _DATED.fullmatch(found.rest):
        raise ChangelogError(f"section [{name}] of CHANGELOG.md needs its date: ## [{name}] - YYYY-MM-DD")
    if any(has_entries(one) for one in sections(text) if one.name == UNRELEASED):
        raise ChangelogError(f"CHANGELOG.md has entries in [{UNRELEASED}], which --prepare {name} moves to [{name}]")


def has_entries(one: Section) -> bool:
    """Return whether a section says what has changed."""
    return re.search(r"^- \S", one.body, re.MULTILINE) is not None


def upcoming(text: str, released: set[str]) -> str:
    """Return the version of the release that is being prepared: the topmost section, if it has no tag yet; else "".

    Args:
        text: The changelog.
        released: Versions that have a tag.
    """
    names = [one.name for one in sections(text) if one.name != UNRELEASED]
    return names[0] if names and names[0] not in released else ""


def prepared(text: str, version: str, date: str) -> str:
    """Return the changelog with all that is not released in the section of a version, and an empty "Unreleased".

    Entries are added in front of those that the section has, below the same headings; what is above its headings stays.

    Args:
        text: The changelog.
        version: Of the release.
        date: Its day, YYYY-MM-DD.

    Raises:
        ChangelogError: There is no section "Unreleased", or nothing to release.
    """
    new = section(text, UNRELEASED)
    old = next((one for one in sections(text) if one.name == version), Section(version, "", ""))
    if not has_entries(new) and not has_entries(old):
        raise ChangelogError("CHANGELOG.md has nothing to release")
    head = _SECTION.split(text)[0].rstrip()
    others = [one for one in sections(text) if one.name not in {UNRELEASED, version}]
    release = Section(version, f" - {date}", merged(new.body, old.body))
    parts = [head, *(_written(one) for one in (Section(UNRELEASED, "", ""), release, *others))]
    return "\n\n".join(parts) + "\n"


def merged(new: str, old: str) -> str:
    """Return the text of one section made of two: by headings, the newer entries first."""
    (said, fresh), (kept, parts) = _parts(new), _parts(old)
    names = [*ORDER, *(name for name in (*fresh, *parts) if name not in ORDER)]
    found = {name: "\n".join(filter(None, (fresh.get(name, ""), parts.get(name, "")))) for name in names}
    return "\n\n".join(filter(None, [kept, said, *(f"### {name}\n\n{body}" for name, body in found.items() if body)]))


def _parts(body: str) -> tuple[str, dict[str, str]]:
    pieces = _PART.split(body)
    return pieces[0].strip(), {pieces[at]: pieces[at + 1].strip() for at in range(1, len(pieces), 2)}


def _written(one: Section) -> str:
    return f"## [{one.name}]{one.rest}" + (f"\n\n{one.body}" if one.body else "")
