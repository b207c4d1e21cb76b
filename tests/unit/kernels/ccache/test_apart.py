"""A compiler cache is shared only by sources whose programs are the same."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from cpuwheels.core.store import Store
from cpuwheels.core.trust import Trust
from cpuwheels.core.usage import counted
from cpuwheels.kernels.ccache import apart
from cpuwheels.kernels.ccache.apart import KEPT, cache_for
from cpuwheels.kernels.ccache.resources.headers import RECORDS
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


RESULT, RECORD, LATER = "0/1/abcR", f"{RECORDS}/{'0' * 64}.json", "f/defM"


@pytest.fixture
def releases(store: Store) -> Path:
    """What builds of releases left, `LATER` last; and files that are of no use to another cache."""
    folder = store.root / "compiler-cache"
    for time, name in enumerate([RESULT, RECORD, LATER, "0/1/stats", "0/CACHEDIR.TAG", "tmp/1R", f"{RECORDS}/1"]):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"100 bytes of {name}".ljust(100))
        os.utime(folder / name, (time, time))
    return folder


def names(folder: Path | None) -> set[str]:
    assert folder is not None
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_new_one_begins_with_what_releases_have(
    cache: CompilerCache, store: Store, source: Path, releases: Path
) -> None:
    with counted() as usage:
        folder = cache_for(cache, store.trusting(Trust.COMMIT), source).folder
    assert folder is not None
    assert names(folder) == {RESULT, RECORD, LATER}
    assert usage.stored().keys() == {"compiler-cache"}
    assert (folder / RESULT).stat().st_mtime == (releases / RESULT).stat().st_mtime
    assert list((store.root / "work").iterdir()) == []
    (folder / RESULT).write_text("what a hostile build writes")
    assert (releases / RESULT).read_text().rstrip() == f"100 bytes of {RESULT}"
    (folder / RECORD).unlink()
    cache_for(cache, store.trusting(Trust.COMMIT), source)
    assert names(folder) == {RESULT, LATER}, "it is begun once"


def test_nothing_of_another_commit_is_in_it(cache: CompilerCache, store: Store, source: Path, releases: Path) -> None:
    commits = store.trusting(Trust.COMMIT)
    folder = cache_for(cache, commits, source).folder
    assert folder is not None
    (folder / "0/1/hostileR").write_text("")
    (source / "CMakeLists.txt").write_text("other")
    assert names(cache_for(cache, commits, source).folder) == names(releases) & names(folder) - {"0/1/stats"}


def test_what_was_used_last_comes_first_if_there_is_too_much(
    cache: CompilerCache, store: Store, source: Path, releases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert releases.is_dir()
    monkeypatch.setattr(apart, "BEGINS_WITH", 250)
    assert names(cache_for(cache, store.trusting(Trust.LOCAL), source).folder) == {RECORD, LATER}


def test_two_that_begin_it_at_once(
    cache: CompilerCache, store: Store, source: Path, releases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = store.trusting(Trust.LOCAL)
    assert releases.is_dir()

    def copied(theirs: Path, ours: Path) -> None:
        """Copy, and let another build have made the cache meanwhile."""
        monkeypatch.undo()
        shutil.copy2(theirs, ours)
        assert names(cache_for(cache, local, source).folder) == {RESULT, RECORD, LATER}

    monkeypatch.setattr(apart, "shutil", SimpleNamespace(copy2=copied, rmtree=shutil.rmtree))
    assert names(cache_for(cache, local, source).folder) == {RESULT, RECORD, LATER}
    assert list((store.root / "work").iterdir()) == []


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
