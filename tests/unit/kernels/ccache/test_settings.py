"""What ccache is told, and what its outcome means."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cpuwheels.kernels.ccache.settings import SCRIPTS, CompilerCache, compiler_cache, was_hit

PROGRAM, ROOT = Path("/opt/ccache"), Path("/home/u/.cache/cpuwheels")


def test_settings() -> None:
    found = CompilerCache(PROGRAM, ROOT).environment("abc")
    assert found["CCACHE_BASEDIR"] == str(ROOT)
    assert found["CCACHE_DIR"] == str(ROOT / "compiler-cache")
    assert found["CCACHE_COMPILERCHECK"] == "string:abc"
    assert found["CCACHE_CONFIGPATH"] == os.devnull
    assert found["CCACHE_DEPEND"] == found["CCACHE_NOHASHDIR"] == "1"
    assert found["CCACHE_SLOPPINESS"].split(",") == ["pch_defines", "time_macros", "include_file_ctime"]
    assert (SCRIPTS / found["CCACHE_PREFIX"]).is_file()
    assert found["CCACHE_PATH"] == str(SCRIPTS), "ccache splits a prefix where it has blanks, and looks for it there"
    assert found["CCACHE_PCH_EXTSUM"] == "1"
    assert "CCACHE_REMOTE_STORAGE" not in found


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, CompilerCache(PROGRAM, ROOT)),
        ({"CPUWHEELS_COMPILER_CACHE_SIZE": "20G"}, CompilerCache(PROGRAM, ROOT, size="20G")),
        (
            {
                "CPUWHEELS_COMPILER_CACHE_REMOTE": "file:/shared/objects|umask=002",
                "CCACHE_REMOTE_STORAGE": "http://other",
            },
            CompilerCache(PROGRAM, ROOT, remote="file:/shared/objects|umask=002"),
        ),
    ],
)
def test_what_the_user_may_set(variables: dict[str, str], expected: CompilerCache) -> None:
    found = compiler_cache(PROGRAM, ROOT, variables, pytest.fail)
    assert found == expected
    settings = found.environment("x")
    assert settings["CCACHE_MAXSIZE"] == expected.size
    assert settings.get("CCACHE_REMOTE_STORAGE", "") == expected.remote
    assert ("CCACHE_NOCOMPRESS" in settings) is not bool(expected.remote)


def test_shared_storage_behind_a_network_is_left_out_and_that_is_said() -> None:
    said: list[str] = []
    given = "redis://name:password@host:6379 file:///a%20b|read-only http://host/objects|layout=bazel"
    found = compiler_cache(PROGRAM, ROOT, {"CPUWHEELS_COMPILER_CACHE_REMOTE": given}, said.append)
    assert found.remote == "file:///a%20b|read-only"
    assert found.shared_folders() == {Path("/a b"): False}
    assert CompilerCache(PROGRAM, ROOT, remote="file:/a|umask=002 file:/b").shared_folders() == {
        Path("/a"): True,
        Path("/b"): True,
    }
    (note,) = said
    assert "(http, redis) is not used: compilers run without a network" in note
    assert "password" not in note


@pytest.mark.parametrize(
    ("note", "hit"),
    [
        ("", False),
        ("cache_miss direct_cache_miss local_storage_miss", False),
        ("direct_cache_hit local_storage_hit", True),
        ("local_storage_hit preprocessed_cache_hit", True),
    ],
)
def test_hits(note: str, hit: bool) -> None:
    assert was_hit(note) is hit
