"""The documentation: links lead somewhere, every page is listed, and files that are named exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from layout import ROOT
from markdown_pages import anchors, broken, code_paths, links, pages

PAGES = {page.relative_to(ROOT).as_posix(): page for page in pages(ROOT)}
UPSTREAM = re.compile(r"vllm/")
"""Files of vLLM's sources."""
REPORTS = "docs/upstream/"
"""Each report is listed in that folder's own index, and names files of vLLM's tests."""
LAYOUT = "docs/reference/layout.md"
"""Names modules by their path in their package; it is generated from the files themselves."""


@pytest.mark.parametrize("name", PAGES)
def test_no_link_is_broken(name: str) -> None:
    assert list(broken(PAGES[name])) == []


@pytest.mark.parametrize("name", [name for name in PAGES if name != LAYOUT and not name.startswith(REPORTS)])
def test_each_python_file_that_is_named_exists(name: str) -> None:
    named = {path for path in code_paths(PAGES[name].read_text(encoding="utf-8")) if not UPSTREAM.match(path)}
    assert {
        path for path in named if not any((base / path).is_file() for base in (ROOT, ROOT / "src/cpuwheels"))
    } == set()


def test_the_index_lists_every_page_once() -> None:
    index = PAGES["docs/index.md"]
    listed = [link.partition("#")[0] for link in links(index.read_text(encoding="utf-8"))]
    listed = [(index.parent / link).resolve().relative_to(ROOT).as_posix() for link in listed]
    assert sorted(name for name in listed if name.endswith(".md")) == sorted(
        name
        for name in PAGES
        if name != "docs/index.md" and (not name.startswith(REPORTS) or name == f"{REPORTS}README.md")
    )


def test_the_glossary_is_alphabetical() -> None:
    terms = re.findall(r"^## (.+)$", PAGES["docs/glossary.md"].read_text(encoding="utf-8"), re.MULTILINE)
    assert terms
    assert terms == sorted(terms, key=str.casefold)


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# A `title`, with [a link](x)\n\n## Twice\n\n## Twice\n")
    page = tmp_path / "page.md"
    page.write_text(
        "# Here\n[a](#here) [a\nb](other.md#twice-1) [c](other.md#a-title-with-a-link) `[d](none.md)` [e](https://x.org/#y)\n"
        "[f](#there) [g](other.md#twice-2) ![h](none.svg)\n"
    )
    assert list(broken(page)) == ["#there", "other.md#twice-2", "none.svg"]
    assert anchors(page.read_text()) == {"here"}


def test_files_that_are_named_are_found() -> None:
    assert code_paths("`core/store.py`, `store.py`, `a b/c.py` and `x/y/z_1.py`") == {"core/store.py", "x/y/z_1.py"}
