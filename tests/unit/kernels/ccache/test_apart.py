"""A compiler cache is shared only by sources whose programs are the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cpuwheels.core.store import Store
from cpuwheels.core.trust import Trust
from cpuwheels.kernels.ccache.apart import KEPT, cache_for
from cpuwheels.kernels.ccache.settings import CompilerCache
from sample_source import write_tree


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "source")


@pytest.fixture
def cache(store: Store) -> CompilerCache:
    return CompilerCache(Path("/ccache"), store.root, remote="redis://one http://two|layout=bazel")


def test_releases_share_one_and_write_to_a_shared_cache(cache: CompilerCache, store: Store, source: Path) -> None:
    assert cache_for(cache, store, source) is cache
    assert cache.environment("x")["CCACHE_DIR"] == str(store.root / "compiler-cache")


@pytest.mark.parametrize("trust", [Trust.COMMIT, Trust.LOCAL])
def test_others_only_read_from_a_shared_cache(cache: CompilerCache, store: Store, source: Path, trust: Trust) -> None:
    settings = cache_for(cache, store.trusting(trust), source).environment("x")
    assert settings["CCACHE_REMOTE_STORAGE"] == "redis://one|read-only http://two|layout=bazel|read-only"
    assert Path(settings["CCACHE_DIR"]).parent == store.root / trust.value / "compiler-cache"
    assert settings["CCACHE_BASEDIR"] == str(store.root)


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("csrc/cpu/ops.cpp", True),
        ("vllm/__init__.py", True),
        ("setup.py", True),
        ("CMakeLists.txt", False),
        ("cmake/more.cmake", False),
        ("csrc/cpu/generate.py", False),
    ],
)
def test_sources_with_the_same_programs_share_one(
    cache: CompilerCache, store: Store, source: Path, name: str, *, same: bool
) -> None:
    commits = store.trusting(Trust.COMMIT)
    before = cache_for(cache, commits, source).folder
    (source / name).write_text("other")
    assert (cache_for(cache, commits, source).folder == before) == same
    assert cache_for(cache, store.trusting(Trust.LOCAL), source).folder != before


def test_the_latest_stay(cache: CompilerCache, store: Store, source: Path) -> None:
    commits = store.trusting(Trust.COMMIT)
    made = []
    for number in range(KEPT + 1):
        (source / "CMakeLists.txt").write_text(f"{number}")
        folder = cache_for(cache, commits, source).folder
        assert folder is not None
        (folder / "object").write_text("")
        os.utime(folder, (number, number))
        made.append(folder)
    assert [folder.exists() for folder in made] == [False, *[True] * KEPT]
