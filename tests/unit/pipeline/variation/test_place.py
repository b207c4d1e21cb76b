"""Where a second build happens, and what it shares with the first."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.config.options import BuildOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.sealed_entry import MOVABLE
from cpuwheels.core.trust import NAMESPACED
from cpuwheels.pipeline.variation.circumstances import Circumstances
from cpuwheels.pipeline.variation.place import TOOLS, other_home, prepare
from layout import ROOT

NOW = Circumstances(BuildOptions(), 0o022)
BUILT = (
    "kernels",
    "from-commits",
    "audited",
    "judged",
    "choosers",
    "packed",
    "tcmalloc-built",
    "measured",
    "compiler-cache",
)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    for kind in ("downloads", "toolchains", "vary", *BUILT):
        (tmp_path / "cache" / kind / "key").mkdir(parents=True)
        (tmp_path / "cache" / kind / "key" / "file").write_text(kind)
    return Paths(ROOT, tmp_path / "cache", tmp_path / "dist")


@pytest.fixture
def base(paths: Paths) -> Path:
    (paths.cache / "verify-1").mkdir()
    return paths.cache / "verify-1"


def kinds(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_nothing_that_a_build_makes_is_shared() -> None:
    assert not (MOVABLE | TOOLS) & (NAMESPACED | set(BUILT))


def test_at_the_same_path_tools_are_shared(paths: Paths, base: Path) -> None:
    place = prepare(paths, base, NOW)
    assert place.paths == paths
    assert place.program is None
    assert kinds(place.cache) == {"downloads", "toolchains", "vary"}
    assert not any((place.cache / kind / "key").exists() for kind in kinds(place.cache)), "they are mounted there"
    mounted = dict(place.binds)
    assert mounted[paths.cache / "toolchains"] == place.cache / "toolchains"
    assert list(place.binds)[-2:] == [(place.dist, paths.dist), (place.cache, paths.cache)]
    assert place.inside(place.cache / "a") == paths.cache / "a"
    assert place.outside(paths.dist / "x86" / "a.whl") == place.dist / "x86" / "a.whl"


def test_cold_stores_have_downloads_of_their_own(paths: Paths, base: Path) -> None:
    place = prepare(paths, base, Circumstances(BuildOptions(), 0o022, cold=True))
    assert kinds(place.cache) == {"downloads", "vary"}
    assert (place.cache / "downloads/key/file").read_text() == "downloads"
    assert place.binds == ((place.dist, paths.dist), (place.cache, paths.cache))


def test_elsewhere_all_is_a_copy(paths: Paths, base: Path) -> None:
    place = prepare(paths, base, Circumstances(BuildOptions(), 0o022, elsewhere=True, cold=True))
    assert place.binds == ()
    assert kinds(place.cache) == {"downloads"}
    assert (place.paths.root / "matrix.yaml").read_bytes() == (ROOT / "matrix.yaml").read_bytes()
    assert (place.paths.root / "tests" / "parity" / "defects.toml").is_file()
    assert place.program is not None
    assert (place.program / "cpuwheels" / "cli" / "main.py").is_file()
    assert place.outside(place.paths.dist / "a.whl") == place.dist / "a.whl"


def test_a_home_folder_knows_where_things_are_fetched_from(
    paths: Paths, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / ".config" / "git").mkdir(parents=True)
    (home / ".config" / "git" / "config").write_text("[url]")
    (home / ".profile").touch()
    monkeypatch.setenv("HOME", str(home))
    place = prepare(paths, base, NOW)
    assert other_home(place) == paths.cache / "home"
    assert (place.cache / "home" / ".config" / "git" / "config").read_text() == "[url]"
    assert not (place.cache / "home" / ".profile").exists()
