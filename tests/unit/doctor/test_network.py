"""Asking places: a web server, files, git, and one that never answers."""

from __future__ import annotations

import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from cpuwheels.doctor.network import Answer, Answers, ask_git, ask_url, in_thread
from running import Quiet, running

if TYPE_CHECKING:
    from collections.abc import Iterator


class Handler(Quiet, BaseHTTPRequestHandler):
    """``/no-head/…`` refuses HEAD; ``/moved`` redirects; anything with ``gone`` is not there."""

    def do_HEAD(self) -> None:
        self._answer(405 if "no-head" in self.path else 200)

    def do_GET(self) -> None:
        self._answer(206 if self.headers.get("Range") == "bytes=0-0" else 200)

    def _answer(self, status: int) -> None:
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/file")
        else:
            self.send_response(404 if "gone" in self.path and status != 405 else status)
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture
def server() -> Iterator[str]:
    with running(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as address:
        yield address


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/file", Answer(True, "answers")),
        ("/moved", Answer(True, "answers")),
        ("/no-head/file", Answer(True, "answers")),
        ("/gone", Answer(False, "HTTP status 404")),
        ("/no-head/gone", Answer(False, "HTTP status 404")),
    ],
)
def test_web(server, path, answer):
    assert ask_url(server + path) == answer


def test_nobody_listens():
    answer = ask_url("http://127.0.0.1:1/file")
    assert not answer.good
    assert "ConnectError" in answer.detail


def test_files(tmp_path):
    file = tmp_path / "a file"
    file.write_text("")
    assert ask_url(file.as_uri()).good
    assert ask_url(str(file)).good
    assert ask_url((tmp_path / "none").as_uri()) == Answer(False, f"no file {tmp_path / 'none'}")


def test_git(tmp_path):
    subprocess.run(["git", "init", "--quiet", "--bare", tmp_path / "repository"], check=True)
    assert ask_git(str(tmp_path / "repository")).good
    answer = ask_git(str(tmp_path / "none"))
    assert not answer.good
    assert "none" in answer.detail


def test_slow_and_failing_places_do_not_hold_up_the_others():
    release = threading.Event()

    def never() -> Answer:
        release.wait(30)
        return Answer(True, "late")

    def broken() -> Answer:
        raise OSError("no such folder")

    began = time.monotonic()
    answers = Answers({"a": lambda: Answer(True, "fine"), "b": never, "c": broken}, seconds=0.5)
    assert answers["a"] == Answer(True, "fine")  # b still has half a second
    assert time.monotonic() - began < 0.5
    found = dict(answers)
    release.set()
    assert time.monotonic() - began < 5
    assert found == {
        "a": Answer(True, "fine"),
        "b": Answer(False, "no answer within 0.5 s"),
        "c": Answer(False, "no such folder"),
    }


def test_all_that_never_answer_are_waited_for_together():
    release = threading.Event()
    began = time.monotonic()
    answers = Answers(dict.fromkeys(range(20), lambda: Answer(release.wait(60), "")), seconds=0.25)
    found = list(answers.values())
    taken = time.monotonic() - began
    release.set()
    assert {answer.detail for answer in found} == {"no answer within 0.25 s"}
    assert taken < 20 * 0.25 / 2


def test_no_questions():
    assert dict(Answers({})) == {}


def test_a_fault_of_a_question_is_raised_where_its_answer_is_looked_up():
    def wrong() -> Answer:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Answers({"a": wrong})["a"]


def test_what_a_thread_returns_or_raises_comes_to_whoever_asks() -> None:
    assert in_thread(lambda: 7).result(timeout=60) == 7
    with pytest.raises(KeyError):
        in_thread(lambda: {}["nothing"]).result(timeout=60)
