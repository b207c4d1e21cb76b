"""Addresses of commits and issues on the site of a repository, for pages."""

from __future__ import annotations

import re
from dataclasses import dataclass

from markupsafe import Markup, escape

_GITHUB = re.compile(
    r"(?:(?:https?|git|ssh)://(?:git@)?github\.com/|git@github\.com:)(?P<name>[A-Za-z0-9][\w.-]*/[\w.-]+?)(?:\.git)?/?",
    re.ASCII,
)
_ISSUE = re.compile(r"(?<![\w/#&])#(?P<number>[1-9][0-9]{0,8})\b", re.ASCII)


@dataclass(frozen=True)
class WebLinks:
    """The site of a repository; without one, texts are only escaped.

    Attributes:
        base: Address of the repository's page; empty if there is none that is known.
    """

    base: str = ""

    def commit(self, name: str) -> str:
        """Return the address of a commit."""
        return f"{self.base}/commit/{name}"

    def compare(self, good: str, bad: str) -> str:
        """Return the address of the changes between two commits."""
        return f"{self.base}/compare/{good}...{bad}"

    def hash(self, name: str, digits: int = 9) -> Markup:
        """Return a commit's first digits as HTML, as a link if there is a site."""
        shown = Markup("<code>{}</code>").format(name[:digits])
        return Markup('<a href="{}" rel="noreferrer">{}</a>').format(self.commit(name), shown) if self.base else shown

    def subject(self, text: str) -> Markup:
        """Return a commit's subject as HTML: what looks like the number of an issue or pull request is a link."""
        if not self.base:
            return escape(text)
        parts, end = [], 0
        for found in _ISSUE.finditer(text):
            address = f"{self.base}/issues/{found['number']}"
            parts += [
                escape(text[end : found.start()]),
                Markup('<a href="{}" rel="noreferrer">{}</a>').format(address, found[0]),
            ]
            end = found.end()
        return Markup().join([*parts, escape(text[end:])])


def web_links(address: str) -> WebLinks:
    """Return the site of a repository at an address that git fetches from: GitHub's, or none."""
    found = _GITHUB.fullmatch(address.strip())
    return WebLinks(f"https://github.com/{found['name']}") if found else WebLinks()
