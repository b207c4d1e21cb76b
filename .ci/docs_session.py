"""Build the site of the documentation, strictly, in dist/docs/, and run the commands that are marked in its pages.

    nox -s docs                                      # dist/docs/main
    nox -s docs -- --test                            # also runs the blocks of code that are marked as tests
    nox -s docs -- --tags                            # also each tag v* that has a site
    nox -s docs -- --look dist/looked [PAGE ...]     # also screenshots with Chromium, and what is too wide

It fails on a broken link or anchor, on a session, command or option that does not exist, on a page that the navigation
lacks, and on anything that a page would load from another server.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path

from chromium import BrowserError
from docs_commands import blocks, run, sessions, unknown
from docs_site import CONFIGURATION, ROOT, DocumentationError, Site, build, list_versions

from cpuwheels.cli.main import cli
from cpuwheels.config.matrix import load_matrix
from cpuwheels.core.errors import CpuwheelsError
from markdown_pages import pages

MAIN = "main"
"""Version of what is checked out; also the branch that links to the repository name."""

_REMOTE = re.compile(r"(?:https://|(?:ssh://)?git@)(?P<host>[\w.-]+)[:/](?P<path>[\w./-]+?)(?:\.git)?/?")


def main(words: list[str]) -> int:
    """Build and test; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--test", action="store_true", help="run the blocks of code that are marked")
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / "docs", help="folder of all versions")
    parser.add_argument("--tags", action="store_true", help="also build each tag v* that has a site")
    parser.add_argument("--repository", help="web view of the repository (default: that of the remote origin)")
    parser.add_argument("--address", default="", help="where the site will be published")
    parser.add_argument("--look", type=Path, metavar="FOLDER", help="write screenshots of pages there")
    parser.add_argument("pages", nargs="*", help="with --look: only these, such as build.html")
    options = parser.parse_args(words)
    repository = origin() if options.repository is None else options.repository.rstrip("/")
    try:
        check_commands()
        newest = []
        for tag in tags() if options.tags else ():
            build_tag(tag, repository, options.address, options.out)
            newest.insert(0, tag)
        built = build(Site(ROOT, MAIN, repository, options.address), options.out)
        list_versions(options.out, [*newest, MAIN])
        print(built)
        if options.test:
            run_marked()
        if options.look:
            from docs_browser import look  # noqa: PLC0415  (only this needs a browser)

            look(options.out, MAIN, options.pages, options.look)
    except (DocumentationError, BrowserError, CpuwheelsError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def check_commands() -> None:
    """Check what the pages' blocks of code call.

    Raises:
        DocumentationError: Something is not there.
    """
    targets = [target.id for target in load_matrix(ROOT).targets]
    known = sessions((ROOT / "noxfile.py").read_text(encoding="utf-8"), targets)
    wrong = []
    for page in pages(ROOT):
        name = page.relative_to(ROOT)
        try:
            wrong += [f"{name}: {one}" for one in unknown(page.read_text(encoding="utf-8"), known, cli.commands)]
        except ValueError as error:
            wrong.append(f"{name}: {error}")
    if wrong:
        raise DocumentationError("\n".join(wrong))


def run_marked() -> None:
    """Run every block of code that is marked as a test.

    Raises:
        DocumentationError: One failed, or none is marked.
    """
    failed, count = [], 0
    for page in pages(ROOT):
        for block in blocks(page.read_text(encoding="utf-8")):
            if block.is_test:
                count += 1
                if printed := run(block):
                    failed.append(f"{page.relative_to(ROOT)}:{block.line}: {printed}")
    if failed or not count:
        raise DocumentationError("\n".join(failed) or "no block of code is marked as a test")
    print(f"{count} blocks of code were run")


def origin() -> str:
    """Return the web view of the repository that the remote `origin` names, or ""."""
    command = ["git", "-C", str(ROOT), "remote", "get-url", "origin"]
    found = _REMOTE.fullmatch(subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip())
    return f"https://{found['host']}/{found['path']}" if found else ""


def tags() -> list[str]:
    """Return the release tags whose commit has a site, the oldest first."""
    listed = _git("tag", "--list", "v*", "--sort=version:refname").decode().split()
    return [tag for tag in listed if _git("ls-tree", "--name-only", tag, CONFIGURATION).strip()]


def build_tag(tag: str, repository: str, address: str, output: Path) -> None:
    """Build the site of a tag from its own files."""
    with tempfile.TemporaryDirectory() as name:
        with tarfile.open(fileobj=BytesIO(_git("archive", "--format=tar", tag))) as archive:
            archive.extractall(name, filter="data")
        build(Site(Path(name), tag, repository, address), output)


def _git(*words: str) -> bytes:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
