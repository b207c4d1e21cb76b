"""What a Markdown page links to, and what can be linked to in it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"(?ms)^```.*?^```$|`[^`\n]+`")


def pages(root: Path) -> list[Path]:
    """Return the pages at the top and every page below docs/."""
    tops = (
        root / name for name in ("README.md", "CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md")
    )
    return [*(path for path in tops if path.is_file()), *sorted((root / "docs").rglob("*.md"))]


def links(text: str) -> list[str]:
    """Return the targets of a page's links and images, as they are written."""
    return [found[1] for found in link_matches(text)]


def link_matches(text: str) -> Iterator[re.Match[str]]:
    """Yield each link of a page, from the bracket that ends its text, as a match whose group 1 is the target."""
    yield from _LINK.finditer(_CODE.sub(lambda code: "`" * len(code[0]), text))


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    for line in text.splitlines():
        if heading := re.match(r"#{1,6} (.+)", line):
            words = re.sub(r"[^\w\- ]", "", _LINK.sub("]", heading[1]).lower()).replace(" ", "-")
            names = [words, *(f"{words}-{count}" for count in range(1, 100))]
            found.add(next(name for name in names if name not in found))
    return found


def broken(page: Path) -> Iterator[str]:
    """Yield each link of a page that leads nowhere: a file that is missing, or a heading that its page lacks.

    Links to other hosts are not followed.
    """
    text = page.read_text(encoding="utf-8")
    for link in links(text):
        if re.match(r"[a-z+]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            yield link


def code_paths(text: str) -> set[str]:
    """Return what a page names between back quotes as a Python file of a folder."""
    return set(re.findall(r"`((?:[\w.-]+/)+\w+\.py)`", text))
