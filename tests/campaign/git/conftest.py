"""Repositories that would have something executed, and a user's file that none of them may change."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from cpuwheels.source.commit import CommitRequest
from hostile_git import PROFILE, Trap
from running import Quiet, running
from sample_source import clone_of_two

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store
    from cpuwheels.source.result import Source
    from hostile_git import Get


@pytest.fixture
def trap(tmp_path: Path) -> Iterator[Trap]:
    """The trap; after the test it must not have been run."""
    made = Trap(tmp_path / "trap.sh", tmp_path / "executed")
    made.path.write_text(f'#!/bin/sh\necho "$0 $@" >> {made.mark}\nexec cat\n')
    made.path.chmod(0o755)
    assert made.works()
    yield made
    assert not made.mark.exists(), made.mark.read_text()


@pytest.fixture
def home(tmp_path: Path, plain_git: None) -> Iterator[Path]:  # noqa: ARG001  (it sets HOME)
    """The user's folder; a file in it must be as it was after the test."""
    profile = tmp_path / ".profile"
    profile.write_text(PROFILE)
    yield tmp_path
    assert profile.read_text() == PROFILE
    assert not profile.is_symlink()


@pytest.fixture
def clone(home: Path) -> Path:
    """A repository with two commits, the first of them v0.32.0."""
    return clone_of_two(home / "vllm")


@pytest.fixture
def get(store: Store, reporter: Reporter) -> Get:
    """Get the source of a revision in a clone or a remote."""

    def ask(revision: str, clone: Path | None = None, *remotes: object) -> Source:
        return CommitRequest(revision, clone, tuple(map(str, remotes))).get(store, reporter)

    return ask


@pytest.fixture
def cookie_server() -> Iterator[str]:
    """Address of a web server that has a branch without any commit, and gives everybody a cookie."""

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = f"{'1' * 40}\trefs/heads/main\n".encode() if "info/refs" in self.path else b""
            self.send_response(200 if body else 404)
            self.send_header("Set-Cookie", "a=b; Max-Age=100000; Path=/")
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with running(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as address:
        yield address
