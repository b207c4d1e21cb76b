"""Pages in a headless Chromium, by the DevTools protocol over a pipe: nothing has to be installed for it.

It reaches no other machine: every name but this machine's loopback address is unknown to it.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import platform
import select
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from npm_package import chromium_program

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
"""Of programs in PATH, for machines that the pinned one is not for."""

OPTIONS = (
    *("--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--disable-extensions"),
    *("--disable-background-networking", "--disable-sync", "--disable-component-update", "--hide-scrollbars"),
    *(
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        "--force-color-profile=srgb",
        "--disable-dev-shm-usage",
    ),
)
LAUNCHER = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""The browser reads from descriptor 3 and writes to 4."""

PHONE = 600
"""Windows that are narrower, in CSS pixels, are those of phones."""

SECONDS = 60.0
"""For an answer."""


class BrowserError(Exception):
    """There is no browser, or it does not do what it was asked for."""


def find_chromium() -> tuple[str, Mapping[str, str]]:
    """Return the browser, and the variables that it is started with.

    Raises:
        BrowserError: There is none.
        CpuwheelsError: The pinned one cannot be fetched, or has other bytes.
    """
    if (sys.platform, platform.machine()) == ("linux", "x86_64"):
        program, variables = chromium_program()
        return str(program), variables
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise BrowserError(f"there is no {', '.join(NAMES)} in PATH: pages are looked at with one of them")
    return found, {}


class Browser:
    """A running browser.

    Args:
        requests: Written to.
        answers: Read from.
    """

    def __init__(self, requests: int, answers: int) -> None:
        self._requests, self._answers = requests, answers
        self._number, self._rest = 0, b""
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **values: object) -> dict[str, Any]:
        """Return the answer to a request; what happens meanwhile is kept in `events`."""
        self._number += 1
        request = {"id": self._number, "method": method, "params": values} | ({"sessionId": session} if session else {})
        left = json.dumps(request).encode() + b"\0"
        while left:
            left = left[os.write(self._requests, left) :]
        end = time.monotonic() + SECONDS
        while True:
            message = self._message(end)
            if message.get("id") == self._number:
                if "error" in message:
                    raise BrowserError(f"{method}: {message['error']}")
                result: dict[str, Any] = message["result"]
                return result
            self.events.append(message)

    def wait(self, event: str, session: str) -> None:
        """Wait for an event of a page."""
        end = time.monotonic() + SECONDS
        while not any(one.get("method") == event and one.get("sessionId") == session for one in self.events):
            self.events.append(self._message(end))

    def _message(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise BrowserError(f"the browser did not answer in {SECONDS:g} s")
            piece = os.read(self._answers, 1 << 16)
            if not piece:
                raise BrowserError("the browser has ended")
            self._rest += piece
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """Start a browser with a profile of its own in a folder, and end it.

    Raises:
        BrowserError: There is none.
        CpuwheelsError: The pinned one cannot be fetched, or has other bytes.
    """
    program, variables = find_chromium()
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    high = [fcntl.fcntl(one, fcntl.F_DUPFD, 16) for one in (theirs_in, theirs_out)]
    command = [program, *OPTIONS, f"--user-data-dir={folder / 'profile'}"]
    if os.geteuid() == 0:
        command.append("--no-sandbox")  # its own sandbox does not work for root; only pages of this project are opened
    with (folder / "chromium.log").open("wb") as log:
        start = [sys.executable, "-ISc", LAUNCHER, *map(str, high), *command, "about:blank"]
        process = subprocess.Popen(start, pass_fds=high, stdout=log, stderr=log, env=os.environ | variables)
    for one in (theirs_in, theirs_out, *high):
        os.close(one)
    browser = Browser(ours_out, ours_in)
    try:
        yield browser
        browser.call("Browser.close")
        process.wait(SECONDS)
    finally:
        process.kill()
        process.wait()
        os.close(ours_in)
        os.close(ours_out)


class Tab:
    """A page in a tab of its own.

    Args:
        browser: The browser.
        address: Of the page.
        width: Of the window, in CSS pixels.
        height: Likewise; that of a small phone or a laptop if not given.
        dark: Whether its reader prefers dark pages.
        media: ``print``, or empty for the screen.
        scripts: Whether the page's own scripts run.
    """

    def __init__(
        self,
        browser: Browser,
        address: str,
        width: int = 1280,
        height: int = 800,
        *,
        dark: bool = False,
        media: str = "",
        scripts: bool = True,
    ) -> None:
        self._browser, self._height = browser, height
        self._target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.call("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        browser.events.clear()
        self.call("Page.enable")
        self.call("Log.enable")
        self.call("Runtime.enable")
        self.call("Network.enable")
        self.resize(width)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        answer = self.call("Page.navigate", url=address)
        if answer.get("errorText"):
            raise BrowserError(f"{address}: {answer['errorText']}")
        browser.wait("Page.loadEventFired", self._session)

    def resize(self, width: int) -> None:
        """Give the window another width; that of a phone also has a phone's viewport."""
        size = {"width": width, "height": self._height, "deviceScaleFactor": 1, "mobile": width < PHONE}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def call(self, method: str, **values: object) -> dict[str, Any]:
        """Return the answer to a request about this page."""
        return self._browser.call(method, self._session, **values)

    def evaluate(self, expression: str) -> Any:  # noqa: ANN401  (whatever the page has)
        """Return the value of an expression, which may be a promise."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise BrowserError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    @property
    def asked(self) -> list[str]:
        """The addresses that the page asked for, its own among them."""
        return [
            one["params"]["request"]["url"] for one in self._events() if one["method"] == "Network.requestWillBeSent"
        ]

    @property
    def faults(self) -> list[str]:
        """What the page's scripts threw, what the console shows as an error, and what was asked of any server."""
        errors = [str(one["params"]) for one in self._events() if one["method"] == "Runtime.exceptionThrown"]
        errors += [str(one["params"]) for one in self._events() if one["method"] == "Log.entryAdded"]
        return errors + [url for url in self.asked if not url.startswith("file:")]

    def _events(self) -> list[dict[str, Any]]:
        return [one for one in self._browser.events if one.get("sessionId") == self._session]

    def press(self, key: str) -> None:
        """Press a key."""
        for kind in ("rawKeyDown", "keyUp"):
            code = {"Tab": 9, "Enter": 13}[key]
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """Write a picture of the whole page, or of what the window shows; its kind is that of the file's name."""
        kind = {"format": "webp", "quality": 75} if path.suffix == ".webp" else {"format": "png"}
        found = self.call("Page.captureScreenshot", captureBeyondViewport=whole, **kind)
        path.write_bytes(base64.b64decode(found["data"]))

    def close(self) -> None:
        """Close it."""
        self._browser.call("Target.closeTarget", targetId=self._target)
