"""The second build: elsewhere, under other conditions, with nothing that the first one has made."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.config.options import BuildOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.console import Reporter
from cpuwheels.pipeline.rebuild import SecondBuildError, rebuilt

PYTHON = f"""\
#!{sys.executable}
import json, os, sys
given = {{"arguments": sys.argv[1:], "variables": dict(os.environ), "umask": os.umask(0)}}
with open(os.environ["GIVEN"], "w") as stream:
    json.dump(given, stream)
print("/wheels/second.whl")
sys.exit(int(os.environ["STATUS"]))
"""
"""Stands for the interpreter: writes down how it is started."""


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """The folders of the first build, whose stores hold a download and kernels."""
    program = tmp_path / "python"
    program.write_text(PYTHON)
    program.chmod(0o755)
    monkeypatch.setenv("GIVEN", str(tmp_path / "given.json"))
    monkeypatch.setenv("STATUS", "0")
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setattr(sys, "executable", str(program))
    for kind in ("downloads", "kernels", "toolchains"):
        (tmp_path / "cache" / kind / "key").mkdir(parents=True)
        (tmp_path / "cache" / kind / "key" / "file").write_text(kind)
    return Paths(tmp_path / "project", tmp_path / "cache", tmp_path / "dist")


def given(paths: Paths) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((paths.root.parent / "given.json").read_text())
    return found


def test_it_is_the_same_build_in_another_folder(paths: Paths, reporter: Reporter) -> None:
    options = BuildOptions(source="0.32.0", toolchain="debian", locked=True)
    with rebuilt(paths, "x86", options, reporter) as wheel:
        assert wheel == Path("/wheels/second.whl")
        arguments = given(paths)["arguments"]
    assert arguments[:2] == ["-m", "cpuwheels"]
    places = dict(zip(arguments[2:8:2], arguments[3:9:2], strict=True))
    base = Path(places["--cache"]).parent
    assert places == {
        "--root": str(paths.root),
        "--cache": str(base / "other cache"),
        "--dist": str(base / "other dist"),
    }
    assert base.parent == paths.cache
    changed = BuildOptions(source="0.32.0", toolchain="debian", locked=True, jobs="1", compiler_cache="off")
    assert arguments[8:] == ["build", "x86", "--no-summary", *changed.as_arguments()]


@pytest.mark.parametrize(("jobs", "other"), [(None, "1"), ("8", "1"), ("1", "2")])
def test_it_has_another_number_of_jobs(paths: Paths, reporter: Reporter, jobs: str | None, other: str) -> None:
    with rebuilt(paths, "x86", BuildOptions(jobs=jobs), reporter):
        arguments = given(paths)["arguments"]
    assert arguments[arguments.index("--jobs") + 1] == other


def test_it_has_another_time_zone_locale_and_umask(paths: Paths, reporter: Reporter) -> None:
    with rebuilt(paths, "x86", BuildOptions(), reporter):
        found = given(paths)
    variables = found["variables"]
    assert (variables["TZ"], variables["LC_ALL"], variables["LANG"]) == ("Pacific/Kiritimati", "C", "tr_TR.UTF-8")
    assert variables["PATH"] == os.environ["PATH"]
    assert found["umask"] == 0o077


def test_its_stores_have_downloads_alone_and_are_removed(paths: Paths, reporter: Reporter) -> None:
    with rebuilt(paths, "x86", BuildOptions(), reporter):
        (cache,) = paths.cache.glob("verify-*/other cache")
        assert [path.name for path in cache.iterdir()] == ["downloads"]
        assert (cache / "downloads/key/file").read_text() == "downloads"
    assert sorted(path.name for path in paths.cache.iterdir()) == ["downloads", "kernels", "toolchains"]


def test_its_failure_is_that_of_the_comparison(
    paths: Paths, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATUS", "27")
    with pytest.raises(SecondBuildError) as raised, rebuilt(paths, "x86", BuildOptions(), reporter):
        pytest.fail("there is no second wheel")
    assert raised.value.status == 27
    assert not list(paths.cache.glob("verify-*"))
