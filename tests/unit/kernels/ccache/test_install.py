"""Which ccache a build gets, and that it goes on without one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from contexts import build_context
from cpuwheels.config.context import BuildContext
from cpuwheels.config.options import BuildOptions
from cpuwheels.kernels.ccache.install import chosen_cache, find_ccache
from deb_writer import Deb

Make = Callable[..., BuildContext]


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr("cpuwheels.fetch.debian.mirrors.APT_ROOT", Path("/nonexistent"))
    monkeypatch.delenv("CPUWHEELS_DEBIAN_MIRROR", raising=False)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Returns runs of a project whose lock of ccache has one package, in a mirror of this machine."""
    deb = Deb(files={"usr/bin/ccache": "#!/bin/sh\n"}).write(tmp_path / "mirror" / "ccache.deb").read_bytes()
    package = {"name": "ccache", "version": "1", "path": "ccache.deb", "size": len(deb)}
    package["sha256"] = hashlib.sha256(deb).hexdigest()
    (tmp_path / "locks").mkdir()
    lock = {"suites": {"test": ["ccache"]}, "architecture": "amd64", "packages": [package]}
    (tmp_path / "locks/ccache.yaml").write_text(yaml.safe_dump(lock))

    def run(*, mirror: str = "mirror", **more: object) -> BuildContext:
        pinned = {"compiler_cache": {"x86_64": "ccache"}} | more
        mirrors = ((tmp_path / mirror).as_uri(),)
        return build_context(tmp_path / "store", root=tmp_path, mirrors=mirrors, **pinned)  # type: ignore[arg-type]

    return run


def test_the_pinned_one_of_this_machine_is_unpacked(make: Make, tmp_path: Path) -> None:
    found = chosen_cache(make())
    assert found is not None
    assert found.program.read_text() == "#!/bin/sh\n"
    assert found.program.relative_to(tmp_path / "store" / "ccache").parts[1:] == ("usr", "bin", "ccache")
    assert found.root == tmp_path / "store"


def test_the_users_settings_reach_it(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPUWHEELS_COMPILER_CACHE_SIZE", "3G")
    found = chosen_cache(make())
    assert found is not None
    assert found.size == "3G"


def test_who_wants_none_has_nothing_unpacked(make: Make, tmp_path: Path) -> None:
    assert chosen_cache(make(options=BuildOptions(compiler_cache="off"))) is None
    assert not (tmp_path / "store" / "ccache").exists()


def test_a_download_that_fails_costs_time_only_and_is_announced(make: Make) -> None:
    run = make(mirror="nowhere")
    assert chosen_cache(run) is None
    (announced,) = run.reporter.announcements
    assert announced.startswith("building without a compiler cache: cannot fetch ccache")


@pytest.mark.parametrize(("system", "kind"), [("Darwin", "x86_64"), ("Linux", "riscv64")])
def test_where_none_is_pinned_there_is_none(
    make: Make, monkeypatch: pytest.MonkeyPatch, system: str, kind: str
) -> None:
    monkeypatch.setattr("platform.system", lambda: system)
    monkeypatch.setattr("platform.machine", lambda: kind)
    run = make()
    assert find_ccache(run) is None
    assert run.reporter.announcements == []
