"""The links of a page."""

from __future__ import annotations

from html.parser import HTMLParser


class _Anchors(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found.append(dict(attrs))


def anchors(page: str) -> list[dict[str, str | None]]:
    """Return the attributes of a page's anchors."""
    parser = _Anchors()
    parser.feed(page)
    return parser.found


def links(page: str) -> list[str]:
    """Return where a page's anchors lead."""
    return [str(anchor["href"]) for anchor in anchors(page) if "href" in anchor]
