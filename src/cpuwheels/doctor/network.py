"""Asking whether places on the network answer, many at once and within a bound."""

from __future__ import annotations

import queue
import threading
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx

from cpuwheels.core.capture import capture
from cpuwheels.core.environ import closed_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PATIENCE = 10.0
"""Seconds for all questions together."""

_TIMEOUT = httpx.Timeout(8, connect=6)
_GIT_SECONDS = 8
_HEAD_REFUSED = {httpx.codes.FORBIDDEN, httpx.codes.METHOD_NOT_ALLOWED, httpx.codes.NOT_IMPLEMENTED}


@dataclass(frozen=True)
class Answer:
    """What a place said.

    Attributes:
        good: Whether what is needed can be had there.
        detail: In words.
    """

    good: bool
    detail: str


def ask_all(questions: Mapping[str, Callable[[], Answer]], seconds: float = PATIENCE) -> dict[str, Answer]:
    """Ask every question at the same time; those without an answer in time count as not reachable."""
    arrived: queue.Queue[tuple[str, Answer]] = queue.Queue()

    def ask(name: str, question: Callable[[], Answer]) -> None:
        try:
            answer = question()
        except (OSError, ValueError) as error:
            answer = Answer(False, str(error))
        arrived.put((name, answer))

    # Daemon threads: a name server that never answers must not hold up the end of the program.
    for name, question in questions.items():
        threading.Thread(target=ask, args=(name, question), daemon=True).start()
    answers = {name: Answer(False, f"no answer within {seconds:g} s") for name in questions}
    deadline = time.monotonic() + seconds
    for _ in questions:
        try:
            name, answer = arrived.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        answers[name] = answer
    return answers


def ask_url(url: str) -> Answer:
    """Ask for the head of a file, or for its first byte where a server refuses HEAD."""
    if not url.startswith(("http://", "https://")):
        path = Path(urllib.request.url2pathname(urlsplit(url).path)) if "://" in url else Path(url)
        return Answer(True, f"{path} is there") if path.exists() else Answer(False, f"no file {path}")
    try:
        with httpx.Client(follow_redirects=True, timeout=_TIMEOUT) as client:
            status = client.head(url).status_code
            if status in _HEAD_REFUSED:
                with client.stream("GET", url, headers={"Range": "bytes=0-0"}) as answer:
                    status = answer.status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return Answer(False, f"{type(error).__name__}: {error}")
    if httpx.codes.is_success(status):
        return Answer(True, "answers")
    return Answer(False, f"HTTP status {status}")


def ask_git(repository: str) -> Answer:
    """Ask a git remote for its HEAD, without ever prompting for a password."""
    env = closed_environment({"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1"}, network=True)
    done = capture(["git", "ls-remote", "--quiet", repository, "HEAD"], env=env, timeout=_GIT_SECONDS)
    if done.returncode == 0:
        return Answer(True, "answers")
    lines = done.output.strip().splitlines()
    return Answer(False, lines[0] if lines else f"git status {done.returncode}")
