"""Pages of the site in a browser: screenshots, what is wider than the window, and what is asked of other servers."""

from __future__ import annotations

import functools
import http.server
import itertools
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from chromium import Tab, chromium
from docs_site import DocumentationError

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDTHS = {390: 844, 1280: 900}
"""Width of a window → its height."""

SCHEMES = ("light", "dark")
SETTLE_SECONDS = 0.5
_WIDE = """width => [...document.querySelectorAll('body *')].filter(one => {
  const box = one.getBoundingClientRect();
  return box.width && box.right > width + 1
    && !one.closest('pre, .md-typeset__scrollwrap, .md-typeset__table, nav, .md-tabs');
}).slice(0, 3).map(one => one.tagName + ' ' + one.className + ' ' + one.textContent.slice(0, 40))"""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine, and yield its address."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""


def look(output: Path, version: str, names: list[str], folder: Path) -> None:
    """Write screenshots of pages, and check what they ask for and whether they fit into the window.

    Args:
        output: Folder of all versions.
        version: The one that is looked at.
        names: Pages; none for all.
        folder: Where the screenshots go.

    Raises:
        DocumentationError: A page asks another server, or is wider than its window.
    """
    folder.mkdir(parents=True, exist_ok=True)
    site = output / version
    chosen = names or sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    wrong = []
    with served(output) as address, TemporaryDirectory() as profile, chromium(Path(profile)) as browser:
        for width, height in WIDTHS.items():
            for scheme, name in itertools.product(SCHEMES, chosen):
                tab = Tab(browser, f"{address}/{version}/{name}", width, height, dark=scheme == "dark")
                time.sleep(SETTLE_SECONDS)
                tab.screenshot(folder / f"{name.replace('/', '-')}-{width}-{scheme}.png", whole=False)
                wide = tab.evaluate(f"document.documentElement.scrollWidth > {width} ? ({_WIDE})({width}) : null")
                wrong += [f"{name} asks for {one}" for one in tab.asked if not one.startswith((address, "data:"))]
                wrong += [f"{name} is wider than {width} pixels: {wide}"] if wide is not None else []
                tab.close()
    if wrong:
        raise DocumentationError("\n".join(wrong))
    print(f"{len(chosen)} pages were looked at: nothing is too wide, and no other server is asked")
