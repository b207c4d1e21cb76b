"""Links of a published report that lead to nothing."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Collection


def dead_links(page: str, files: Collection[str]) -> list[str]:
    """Return the files that a page leads to and that are not there, each once, in the order of the page.

    Args:
        page: HTML.
        files: Names of what is in the page's folder. Links to other sites and within the page are not looked at.
    """
    links = _Links()
    links.feed(page)
    links.close()
    parts = [urlsplit(link) for link in links.found]
    names = [unquote(one.path) for one in parts if not one.scheme and not one.netloc and one.path]
    return [name for name in dict.fromkeys(names) if name not in files]


class _Links(HTMLParser):
    """Collects what the elements of a page lead to or show."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002  (its signature)
        self.found += [value for name, value in attrs if name in {"href", "src"} and value]
