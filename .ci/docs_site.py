"""The site of the documentation: pages as the generator wants them, what must hold before and after, and its versions.

Pages are written for a repository's web view, where a link may lead to any file. A copy of them is made in which links
that leave docs/ lead to the repository's files, or are plain text where no repository is known.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "helpers"))

from markdown_pages import broken, link_matches, pages  # noqa: E402  (the tests' helpers are no installed package)

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIGURATION = "zensical.toml"
TOPS = {
    "README.md": "readme.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "reporting.md",
    "CONTRIBUTING.md": "contributing.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
}
"""Pages at the top of the project → their names on the site."""

REPORTS = "upstream/"
"""Each report is listed in that folder's own index, not in the navigation."""

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_ELSEWHERE = re.compile(r"(?:[a-z]+:)?//", re.IGNORECASE)
_IN_STYLE = re.compile(r"""url\(\s*["']?((?:https?:)?//[^)"']+)|@import\s+["']([^"']+)""")
_NOT_LOADED = {"canonical", "prev", "next", "alternate"}
_LOADS_LATER = {"mermaid": "unpkg.com", "glightbox": "unpkg.com", "pyodide": "cdn.jsdelivr.net"}
"""Class of an element for which the theme's script loads something → from where."""


class DocumentationError(Exception):
    """The documentation is not as it has to be."""


@dataclass(frozen=True)
class Site:
    """What a build of the site depends on, besides the project's files.

    Attributes:
        root: The project's folder.
        version: Name of the version, and of its folder.
        repository: Address of the web view of its repository, or "" if it is not known.
        address: Where the site is published, or "" if it is not known.
    """

    root: Path
    version: str
    repository: str = ""
    address: str = ""

    def name(self, path: Path) -> str | None:
        """Return the name that a file of the project has on the site, or None if it is not there."""
        relative = path.relative_to(self.root).as_posix()
        if relative.startswith("docs/") and path.is_file():
            return relative.removeprefix("docs/")
        return TOPS.get(relative)

    def source(self, path: Path) -> str | None:
        """Return the address of a file or folder in the repository's web view."""
        kind = "tree" if path.is_dir() else "blob"
        relative = path.relative_to(self.root).as_posix()
        return f"{self.repository}/{kind}/{self.version}/{relative}" if self.repository else None


def problems(root: Path) -> Iterator[str]:
    """Yield what is wrong with pages before a site is made of them: links, anchors, and the navigation."""
    for page in pages(root):
        for link in broken(page):
            yield f"{page.relative_to(root)}: the link {link} leads nowhere"
    listed = list(navigation(tomllib.loads((root / CONFIGURATION).read_text(encoding="utf-8"))["project"]["nav"]))
    there = {path.relative_to(root / "docs").as_posix() for path in (root / "docs").rglob("*.md")}
    there |= {name for top, name in TOPS.items() if (root / top).is_file()}
    expected = {name for name in there if not name.startswith(REPORTS) or name == f"{REPORTS}README.md"}
    for name in sorted(expected - {*listed}):
        yield f"{CONFIGURATION}: {name} is not in the navigation"
    for name in sorted({*listed} - expected):
        yield f"{CONFIGURATION}: there is no page {name}"
    for name in sorted({name for name in listed if listed.count(name) > 1}):
        yield f"{CONFIGURATION}: {name} is in the navigation twice"


def navigation(entries: list[Any]) -> Iterator[str]:
    """Yield the pages of a navigation in their order."""
    for entry in entries:
        for value in entry.values():
            if isinstance(value, str):
                yield value
            else:
                yield from navigation(value)


def stage(site: Site, folder: Path) -> None:
    """Copy the documentation into a folder, with links that are right on the site.

    Args:
        site: What is built.
        folder: Where the pages go; it must not be there yet.
    """
    shutil.copytree(site.root / "docs", folder)
    for page in pages(site.root):
        (folder / str(site.name(page))).write_text(rewritten(site, page), encoding="utf-8")


def rewritten(site: Site, page: Path) -> str:
    """Return the text of a page with links that are right on the site."""
    text = page.read_text(encoding="utf-8")
    for found in reversed([*link_matches(text)]):
        path, mark, anchor = found[1].partition("#")
        if not path or re.match(r"[a-z+]+:", path):
            continue
        target = Path(os.path.normpath(page.parent / path))
        name, here = site.name(target), site.name(page)
        if name is not None and here is not None:
            link = os.path.relpath(name, Path(here).parent) + mark + anchor
        elif address := site.source(target):
            link = address + mark + anchor
        else:
            text = without_link(text, found)
            continue
        text = f"{text[: found.start()]}]({link}){text[found.end() :]}"
    return text


def without_link(text: str, found: re.Match[str]) -> str:
    """Return a page's text with the words of a link in place of the link."""
    depth, start = 1, found.start()
    while depth:
        start -= 1
        depth += {"]": 1, "[": -1}.get(text[start], 0)
    return text[:start] + text[start + 1 : found.start()] + text[found.end() :]


def build(site: Site, output: Path) -> Path:
    """Build one version of the site, strictly, and return its folder.

    Args:
        site: What is built.
        output: Folder of all versions.

    Raises:
        DocumentationError: A page, the navigation or the result is not as it has to be.
    """
    if wrong := [*problems(site.root)]:
        raise DocumentationError("\n".join(wrong))
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        stage(site, work / "docs")
        configuration = tomllib.loads((site.root / CONFIGURATION).read_text(encoding="utf-8"))
        project = configuration["project"] | {"docs_dir": "docs", "site_dir": "site"}
        if site.address:
            project["site_url"] = f"{site.address.rstrip('/')}/{site.version}/"
        if site.repository:
            project["nav"] = [*project["nav"], {"Source": f"{site.repository}/tree/{site.version}"}]
        (work / CONFIGURATION).write_text(tomli_w.dumps({"project": project}), encoding="utf-8")
        command = [sys.executable, "-m", "zensical", "build", "--strict"]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DocumentationError(_ANSI.sub("", done.stdout + done.stderr))
        if wrong := [*requests(work / "site")]:
            raise DocumentationError("\n".join(wrong))
        made = output / site.version
        shutil.rmtree(made, ignore_errors=True)
        made.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(work / "site", made)
    return made


def list_versions(output: Path, versions: list[str]) -> None:
    """Write the list of versions, the newest first, and a page that leads to the first.

    Args:
        output: Folder of all versions.
        versions: Their names; the first is the one that readers get.
    """
    rows = [{"version": name, "title": name, "aliases": []} for name in versions]
    (output / "versions.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    first = f"{versions[0]}/index.html"
    (output / "index.html").write_text(
        f'<!doctype html>\n<meta charset="utf-8">\n<title>cpuwheels</title>\n'
        f'<meta http-equiv="refresh" content="0; url={first}">\n<a href="{first}">cpuwheels {versions[0]}</a>\n',
        encoding="utf-8",
    )


def requests(site: Path) -> Iterator[str]:
    """Yield what pages and styles of a site would load from another server."""
    for path in sorted(site.rglob("*")):
        if path.suffix in {".html", ".svg"}:
            reader = _Loaded()
            text = path.read_text(encoding="utf-8")
            reader.feed(text)
            found = [*reader.found, *(_styles(text) if path.suffix == ".svg" else ())]
        elif path.suffix == ".css":
            found = [*_styles(path.read_text(encoding="utf-8"))]
        else:
            continue
        for address in found:
            yield f"{path.relative_to(site)} loads {address}"


def _styles(text: str) -> Iterator[str]:
    for found in _IN_STYLE.finditer(text):
        if _ELSEWHERE.match(address := found[1] or found[2]):
            yield address


class _Loaded(HTMLParser):
    """Collects what a browser loads from other servers for a page.

    Attributes:
        found: Addresses, or the hosts that the theme's script asks because of a class.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at what an element loads, by its attributes."""
        values = {name: value or "" for name, value in attrs}
        self._style = tag == "style"
        self.found += _styles(values.get("style", ""))
        self.found += [_LOADS_LATER[word] for word in values.get("class", "").split() if word in _LOADS_LATER]
        if values.get("data-md-component") == "source":
            self.found.append("api.github.com")
        if tag == "a" or (tag == "link" and values.get("rel") in _NOT_LOADED):
            return
        for name in ("src", "href", "xlink:href", "data", "poster", "srcset"):
            if _ELSEWHERE.match(values.get(name, "")):
                self.found.append(values[name])

    def handle_data(self, data: str) -> None:
        """Look at a style."""
        if self._style:
            self.found += _styles(data)
