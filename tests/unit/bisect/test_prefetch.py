"""Wheels that are made while something else is waited for."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from cpuwheels.bisect.prefetch import Prefetch
from cpuwheels.core.errors import CompileError
from cpuwheels.core.process import run

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE = 30.0


class Held:
    """Makes wheels, but waits after each has begun until it may go on."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.made: list[str] = []

    def get(self, commit: str) -> None:
        self.made.append(commit)
        self.begun.set()
        self.go_on.wait(PATIENCE)


def test_they_are_made_one_after_the_other_beside_the_caller() -> None:
    made: list[tuple[str, int]] = []
    done = threading.Event()

    def get(commit: str) -> None:
        made.append((commit, threading.get_ident()))
        if commit == "b":
            done.set()

    with Prefetch(get) as ahead:
        ahead.begin(["a", "b"])
        assert done.wait(PATIENCE)
    assert [commit for commit, _ in made] == ["a", "b"]
    (thread,) = {thread for _, thread in made}
    assert thread != threading.get_ident()


def test_what_is_no_longer_expected_is_left_out() -> None:
    held = Held()
    with Prefetch(held.get) as ahead:
        ahead.begin(["a", "b"])
        assert held.begun.wait(PATIENCE)
        ahead.begin(["c"])
        held.go_on.set()
        while held.made[-1] != "c":
            time.sleep(0.01)
    assert held.made == ["a", "c"]


def test_one_that_fails_keeps_no_other_from_being_made() -> None:
    done = threading.Event()

    def get(commit: str) -> None:
        if commit == "a":
            raise CompileError("it does not compile")
        done.set()

    with Prefetch(get) as ahead:
        ahead.begin(["a", "b"])
        assert done.wait(PATIENCE)


def test_a_command_that_is_under_way_is_ended_with_it(tmp_path: Path) -> None:
    began, made = time.monotonic(), []

    def get(commit: str) -> None:
        made.append(commit)
        run(["sleep", str(2 * PATIENCE)], log=tmp_path / "log")

    with Prefetch(get) as ahead:
        ahead.begin(["a", "b"])
        while not (tmp_path / "log").is_file():
            time.sleep(0.01)
    assert made == ["a"]
    assert time.monotonic() - began < PATIENCE


def test_what_is_not_needed_is_ended_and_the_rest_is_left_out(tmp_path: Path) -> None:
    began, made = time.monotonic(), []

    def get(commit: str) -> None:
        made.append(commit)
        run(["sleep", str(2 * PATIENCE)], log=tmp_path / commit)

    with Prefetch(get) as ahead:
        ahead.begin(["a", "b"])
        while not (tmp_path / "a").is_file():
            time.sleep(0.01)
        assert not ahead.keep_only("b")
        assert made == ["a"]
        assert "exit status -15" in (tmp_path / "a").read_text()
        assert not ahead.keep_only("c")
    assert made == ["a"]
    assert time.monotonic() - began < PATIENCE


def test_what_is_needed_goes_on_and_can_be_waited_for() -> None:
    begun, go_on, made = threading.Event(), threading.Event(), []

    def get(commit: str) -> None:
        begun.set()
        go_on.wait(PATIENCE)
        made.append(commit)
        raise CompileError("it does not compile")

    with Prefetch(get) as ahead:
        ahead.begin(["a", "b"])
        assert begun.wait(PATIENCE)
        assert ahead.keep_only("a")
        go_on.set()
        ahead.wait()
        assert made == ["a"]
        assert not ahead.keep_only("a")
    assert made == ["a"]


def test_what_is_under_way_is_not_begun_again() -> None:
    held = Held()
    with Prefetch(held.get) as ahead:
        ahead.begin(["a", "b"])
        assert held.begun.wait(PATIENCE)
        ahead.begin(["a", "b"])
        held.go_on.set()
        ahead.wait()
    assert held.made == ["a", "b"]


def test_after_a_short_wait_nothing_is_made() -> None:
    began, made = time.monotonic(), []
    with Prefetch(made.append, pause=2 * PATIENCE) as ahead:
        ahead.begin(["a", "b"])
        assert not ahead.keep_only("c")
        ahead.begin(["c"])
    assert made == []
    assert time.monotonic() - began < PATIENCE


def test_in_a_longer_wait_all_are_made_after_the_pause() -> None:
    made: list[tuple[str, float]] = []
    began = time.monotonic()
    with Prefetch(lambda commit: made.append((commit, time.monotonic() - began)), pause=0.3) as ahead:
        ahead.begin(["a", "b"])
        ahead.wait()
    assert [commit for commit, _ in made] == ["a", "b"]
    assert 0.3 <= made[0][1] <= made[1][1]
