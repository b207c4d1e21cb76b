"""Asking whether places on the network answer, many at once and within a bound."""

from __future__ import annotations

import threading
import time
import urllib.request
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from cpuwheels.core.capture import capture
from cpuwheels.core.git_settings import git_command, git_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

PATIENCE = 10.0
"""Seconds for all questions together."""

_SECONDS, _CONNECT_SECONDS = 8, 6
_GIT_SECONDS = 8
_HEAD_REFUSED = {HTTPStatus.FORBIDDEN, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED}


@dataclass(frozen=True)
class Answer:
    """A place's answer.

    Attributes:
        good: Whether what is needed can be fetched there.
        detail: In words.
    """

    good: bool
    detail: str


class Answers(Mapping[str, Answer]):
    """The answers to questions that are all asked at the same time; looking one up waits for it.

    Args:
        questions: By the names of the places.
        seconds: For all together; what has not answered by then counts as not reachable.
    """

    def __init__(self, questions: Mapping[str, Callable[[], Answer]], seconds: float = PATIENCE) -> None:
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._coming = {name: in_thread(partial(_ask, question)) for name, question in questions.items()}

    def __getitem__(self, name: str) -> Answer:
        try:
            return self._coming[name].result(timeout=max(0.0, self._deadline - time.monotonic()))
        except TimeoutError:
            return Answer(False, f"no answer within {self._seconds:g} s")

    def __iter__(self) -> Iterator[str]:
        return iter(self._coming)

    def __len__(self) -> int:
        return len(self._coming)


def in_thread(function: Callable[[], T]) -> Future[T]:
    """Return what a function returns, or raises, once it does.

    Its thread is a daemon: a name server that never answers, say, must not hold up the end of the program.
    """
    coming: Future[T] = Future()

    def work() -> None:
        try:
            coming.set_result(function())
        except BaseException as error:  # noqa: BLE001  (raised where the result is asked for)
            coming.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return coming


def _ask(question: Callable[[], Answer]) -> Answer:
    try:
        return question()
    except (OSError, ValueError) as error:
        return Answer(False, str(error))


def ask_url(url: str) -> Answer:
    """Ask for the head of a file, or for its first byte where a server refuses HEAD."""
    if not url.startswith(("http://", "https://")):
        path = Path(urllib.request.url2pathname(urlsplit(url).path)) if "://" in url else Path(url)
        return Answer(True, f"{path} is there") if path.exists() else Answer(False, f"no file {path}")
    import httpx  # noqa: PLC0415  (slow to import, and often nothing is asked)

    timeout = httpx.Timeout(_SECONDS, connect=_CONNECT_SECONDS)
    try:
        with httpx.Client(follow_redirects=True, timeout=timeout) as client:
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
    command = git_command("ls-remote", "--quiet", "--", repository, "HEAD")
    done = capture(command, env=git_environment(), timeout=_GIT_SECONDS)
    if done.returncode == 0:
        return Answer(True, "answers")
    lines = done.output.strip().splitlines()
    return Answer(False, lines[0] if lines else f"git status {done.returncode}")
