"""Pages in a browser: screenshots, what is wider than the window, and what a page asks other servers for.

Chromium is driven by its DevTools protocol over a pipe, so that nothing has to be installed besides it. It reaches no
other machine: every name but this machine's loopback address is unknown to it.
"""

from __future__ import annotations

import base64
import functools
import http.server
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

from docs_site import DocumentationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WIDTHS = {390: 844, 1280: 900}
"""Width of a window → its height."""

SCHEMES = ("light", "dark")
SETTLE_SECONDS = 0.5
NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
)
_WIDE = """[...document.querySelectorAll('body *')].filter(one => {
  const box = one.getBoundingClientRect();
  return box.width && box.right > innerWidth + 1
    && !one.closest('pre, .md-typeset__scrollwrap, .md-typeset__table, nav, .md-tabs');
}).slice(0, 3).map(one => one.tagName + ' ' + one.className + ' ' + one.textContent.slice(0, 40))"""


@dataclass
class Page:
    """A tab of a browser.

    Attributes:
        asked: Addresses that were asked for since the last page.
    """

    to: BinaryIO
    answers: BinaryIO
    session: str = ""
    asked: list[str] = field(default_factory=list)
    _count: int = 0
    _loaded: bool = False

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.to.write(json.dumps(message).encode() + b"\0")
        self.to.flush()
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise DocumentationError(f"{method}: {answer['error']}")
                return dict(answer["result"])

    def go(self, address: str) -> None:
        """Load a page, and wait until it is there."""
        self.asked.clear()
        self._loaded = False
        self.call("Page.navigate", url=address)
        while not self._loaded:
            self._next()
        time.sleep(SETTLE_SECONDS)
        self.call("Runtime.evaluate", expression="0")  # takes what came meanwhile

    def value(self, expression: str) -> object:
        """Return the value of an expression on the page."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def show(self, width: int, height: int, scheme: str, scale: float = 1) -> None:
        """Set the size of the window, and which colours its user prefers."""
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        preferred = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media="screen", features=preferred)

    def picture(self, kind: str = "png") -> bytes:
        """Return what the window shows, as `png` or `webp`."""
        return base64.b64decode(
            self.call("Page.captureScreenshot", format=kind, **({"quality": 75} if kind == "webp" else {}))["data"]
        )

    def _next(self) -> dict[str, Any]:
        text = bytearray()
        while (byte := self.answers.read(1)) != b"\0":
            if not byte:
                raise DocumentationError("the browser has ended")
            text += byte
        answer: dict[str, Any] = json.loads(text)
        if answer.get("method") == "Network.requestWillBeSent":
            self.asked.append(answer["params"]["request"]["url"])
        elif answer.get("method") == "Page.loadEventFired":
            self._loaded = True
        return answer


@contextmanager
def browser() -> Iterator[Page]:
    """Start a browser, and yield a tab of it.

    Raises:
        DocumentationError: There is none.
    """
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        raise DocumentationError(f"screenshots need one of {', '.join(NAMES)} on the PATH")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        ours, theirs = os.pipe(), os.pipe()
        line = f'exec "$0" "$@" 3<&{ours[0]} 4>&{theirs[1]}'
        process = subprocess.Popen(
            [str(shutil.which("bash")), "-c", line, program, *_FLAGS, f"--user-data-dir={profile}"],
            pass_fds=(ours[0], theirs[1]),
            stderr=subprocess.DEVNULL,
        )
        os.close(ours[0])
        os.close(theirs[1])
        try:
            with os.fdopen(ours[1], "wb") as to, os.fdopen(theirs[0], "rb") as answers:
                page = Page(to, answers)
                target = page.call("Target.createTarget", url="about:blank")["targetId"]
                page.session = page.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
                for domain in ("Page", "Network", "Runtime"):
                    page.call(f"{domain}.enable")
                yield page
        finally:
            process.terminate()
            process.wait(60)


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
    with served(output) as address, browser() as page:
        for width, height in WIDTHS.items():
            for scheme in SCHEMES:
                page.show(width, height, scheme)
                for name in chosen:
                    page.go(f"{address}/{version}/{name}")
                    (folder / f"{name.replace('/', '-')}-{width}-{scheme}.png").write_bytes(page.picture())
                    wrong += [f"{name} asks for {one}" for one in page.asked if not one.startswith((address, "data:"))]
                    if page.value("document.documentElement.scrollWidth > innerWidth"):
                        wrong.append(f"{name} is wider than {width} pixels: {page.value(_WIDE)}")
    if wrong:
        raise DocumentationError("\n".join(wrong))
    print(f"{len(chosen)} pages were looked at: nothing is too wide, and no other server is asked")
