"""What is run to compress the cache, and where; that objects come out of it is in tests/integration."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cpuwheels.core.console import Reporter
from cpuwheels.kernels.ccache.compress import compress_cache
from cpuwheels.kernels.ccache.settings import CompilerCache
from cpuwheels.kernels.confined import Confinement
from cpuwheels.sandbox.confine import Sandbox
from unconfined import UNCONFINED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpuwheels.sandbox.confine import Confined
    from cpuwheels.sandbox.steps import Step
    from cpuwheels.sandbox.view import View


@pytest.fixture
def cache(tmp_path: Path) -> CompilerCache:
    """A cache whose program notes what it is asked, and ends with the status in a file."""
    program = tmp_path / "ccache"
    program.write_text(
        f'#!/bin/sh\necho "$* $CCACHE_DIR $CCACHE_CONFIGPATH" >> {tmp_path}/asked\nexit $(cat {tmp_path}/status)\n'
    )
    program.chmod(0o755)
    (tmp_path / "status").write_text("0")
    return CompilerCache(program, tmp_path / "store")


@pytest.fixture
def confinement(tmp_path: Path) -> Confinement:
    for folder in ("work", "apart"):
        (tmp_path / folder).mkdir()
    return Confinement(UNCONFINED, tmp_path / "work", (), (tmp_path / "gate",), tmp_path / "plans")


@pytest.mark.parametrize("status", ["0", "1"])
def test_it_is_compressed_in_the_sandbox_of_the_build(
    cache: CompilerCache, confinement: Confinement, tmp_path: Path, reporter: Reporter, story: io.StringIO, status: str
) -> None:
    (tmp_path / "status").write_text(status)
    compress_cache(cache, confinement, tmp_path / "apart", reporter, tmp_path / "log")
    folder = tmp_path / "store" / "compiler-cache"
    assert (tmp_path / "asked").read_text() == f"--recompress 1 --recompress-threads 1 {folder} /dev/null\n"
    (plan,) = (tmp_path / "plans" / "sandbox").iterdir()
    assert '"step": "ccache"' in plan.read_text()
    assert ("could not be compressed" in story.getvalue()) == (status == "1")


def test_what_the_build_left_is_not_seen(
    cache: CompilerCache, confinement: Confinement, tmp_path: Path, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    views: list[View] = []

    def confine(self: Sandbox, step: Step, argv: Sequence[str | Path], *given: Any) -> Confined:
        views.append(step.view)
        return whole(self, step, argv, *given)

    whole = Sandbox.confine
    monkeypatch.setattr(Sandbox, "confine", confine)
    compress_cache(cache, confinement, tmp_path / "apart", reporter, tmp_path / "log")
    (view,) = views
    assert view.writable == (tmp_path / "store" / "compiler-cache",)
    assert view.work == tmp_path / "apart"
    assert tmp_path / "work" not in view.readable


def test_shared_storage_is_compressed_as_it_is_written(
    cache: CompilerCache, confinement: Confinement, tmp_path: Path, reporter: Reporter
) -> None:
    shared = CompilerCache(cache.program, cache.root, remote="file:/shared")
    compress_cache(shared, confinement, tmp_path / "apart", reporter, tmp_path / "log")
    assert not (tmp_path / "asked").exists()
