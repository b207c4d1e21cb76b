"""A run's context: stores that can be written, without what killed runs left, and a log folder of its own."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cpuwheels.config.context import BuildContext
from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.console import Reporter
from cpuwheels.core.environ import LIBRARY
from cpuwheels.core.errors import StoreError
from cpuwheels.core.store import STALE_DAYS, Store
from cpuwheels.pipeline.context import open_context

Open = Callable[..., BuildContext]


@pytest.fixture
def paths(tmp_path: Path, project_root: Path) -> Paths:
    return Paths(project_root, tmp_path / "cache", tmp_path / "dist")


@pytest.fixture
def start(paths: Paths, reporter: Reporter) -> Open:
    matrix = load_matrix(paths.root)
    return lambda store=None: open_context(paths, matrix, matrix.target("x86"), BuildOptions(), reporter, store)


def test_every_run_has_a_log_folder_of_its_own(start: Open, paths: Paths, story: io.StringIO) -> None:
    first, second = start(), start()
    assert first.logs.is_dir()
    assert first.logs != second.logs
    assert first.logs.is_relative_to(paths.dist)
    assert f"logs: {first.logs}\n" in story.getvalue()


def test_the_stores_are_those_of_the_paths_or_the_open_ones(start: Open, paths: Paths) -> None:
    assert start().store.root == paths.cache
    store = Store(paths.cache, check_once=True)
    assert start(store).store is store
    assert list(paths.cache.iterdir()) == []


def test_a_library_that_every_command_loads_is_no_secret(start: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    assert start().reporter.announcements == []
    monkeypatch.setenv(LIBRARY, "/somewhere/libvary.so")
    assert start().reporter.announcements == [
        f"every command loads /somewhere/libvary.so, as in a second build: {LIBRARY} is set"
    ]


def test_work_that_nobody_went_on_with_is_removed(start: Open, paths: Paths) -> None:
    stale, fresh = (paths.cache / "work" / name for name in ("stale", "fresh"))
    for folder in (stale, fresh):
        folder.mkdir(parents=True)
    long_ago = time.time() - (STALE_DAYS + 1) * 24 * 3600
    os.utime(stale, (long_ago, long_ago))
    start()
    assert not stale.exists()
    assert fresh.exists()


@pytest.mark.parametrize("place", ["cache", "dist"])
def test_a_folder_that_cannot_be_written_is_told_at_once(start: Open, tmp_path: Path, place: str) -> None:
    (tmp_path / place).write_text("")
    with pytest.raises(StoreError, match="cannot use"):
        start()
