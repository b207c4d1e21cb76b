"""A locked build whose stores are empty asks for nothing that the list of its target's downloads does not have."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
from pathlib import Path

import pytest

from fence import run_fenced
from listed_requests import expected
from noting_proxy import noting_proxy
from tiny_project import Tiny, pin_torch

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # everything is fetched and unpacked

PLANTED = "http://deb.debian.org/debian/pool/main/p/planted/planted_1_all.deb"

PLANT = """
import sys, urllib.request
from cpuwheels.pipeline import build
real = build.get_kernels
def planted(*arguments, **options):
    try:
        urllib.request.urlopen({url!r}, timeout=20)
    except OSError as fault:
        print(fault, file=sys.stderr)
    return real(*arguments, **options)
build.get_kernels = planted
sys.argv = ["cpuwheels", *sys.argv[1:]]
from cpuwheels.cli.main import main
sys.exit(main())
"""
"""Runs the command line in which some code asks for one thing more, past all that fetches."""

DROPPED = """
import sys
from cpuwheels.pipeline import locked_run
real = locked_run.source_downloads
def shorter(*arguments):
    return tuple(row for row in real(*arguments) if row.name != {name!r})
locked_run.source_downloads = shorter
sys.argv = ["cpuwheels", *sys.argv[1:]]
from cpuwheels.cli.main import main
sys.exit(main())
"""
"""Runs the command line with a list from which something is missing, so that a build wants one thing more."""


@pytest.fixture(scope="module")
def cold(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """The tiny project with its torch pinned by content, and empty stores."""
    base = tmp_path_factory.mktemp("locked")
    shutil.copytree(tiny.root, base / "project")
    pin_torch(base / "project")
    return dataclasses.replace(tiny, root=base / "project", dist=base / "dist", cache=base / "cache")


def settings(tiny: Tiny) -> dict[str, str]:
    """An empty cache for uv, too."""
    return {"UV_CACHE_DIR": str(tiny.dist.with_name("uv"))}


def driven(tiny: Tiny, code: str, *arguments: str) -> list[str]:
    """The command line of a cpuwheels command, begun by a program that changes something first."""
    command = tiny.command(*arguments)
    return [command[0], "-c", code, *command[3:]]


def test_a_cold_locked_build_asks_for_nothing_that_is_not_listed(cold: Tiny, tmp_path: Path) -> None:
    listed = expected(cold.root, "x86", "0.1.0")
    with noting_proxy(tmp_path) as proxy:
        done = run_fenced(cold.command("build", "x86", "--locked"), proxy.socket, settings(cold))
    assert done.returncode == 0, done.stderr
    assert listed.unlisted(proxy.asked) == []
    number, wrong = listed.unlisted_in_log(cold.dist)
    assert wrong == []
    # Each package of Debian, and the build tools: nothing was there before.
    packages = [row for row in listed.rows if row.stage in {"toolchain", "sysroot", "sandbox"}]
    assert number > len(packages) > 40
    assert len([one for one in proxy.asked if one.endswith(".deb")]) >= len({row.location for row in packages})
    assert any("files.pythonhosted.org" in one for one in proxy.asked)
    record = json.loads((Path(done.stdout.strip()).parent / "record.json").read_text())
    assert record["parameters"]["locked"] is True
    assert record["alternates"] == []


def test_a_request_past_all_that_fetches_is_seen_by_the_proxy(cold: Tiny, tmp_path: Path) -> None:
    """The log of the build itself cannot have it."""
    listed = expected(cold.root, "x86", "0.1.0")
    again = dataclasses.replace(cold, dist=tmp_path / "dist")
    with noting_proxy(tmp_path) as proxy:
        command = driven(again, PLANT.format(url=PLANTED), "build", "x86", "--locked")
        done = run_fenced(command, proxy.socket, settings(cold))
    assert done.returncode == 0, done.stderr
    assert listed.unlisted(proxy.asked) == [f"GET {PLANTED}"]
    assert listed.unlisted_in_log(again.dist)[1] == []


def test_what_the_list_lacks_is_refused_before_it_is_asked_for(cold: Tiny, tmp_path: Path) -> None:
    name = "binutils-x86-64-linux-gnu"
    empty = dataclasses.replace(cold, cache=tmp_path / "cache", dist=tmp_path / "dist")
    with noting_proxy(tmp_path) as proxy:
        command = driven(empty, DROPPED.format(name=name), "build", "x86", "--locked", "--toolchain", "debian")
        done = run_fenced(command, proxy.socket, settings(empty))
    assert done.returncode == 22, done.stderr
    message = " ".join(done.stderr.split())
    assert name in message
    assert "locks/downloads/x86.json, and --locked fetches nothing else" in message
    assert "run `nox -s lock`" in message
    assert not [one for one in proxy.asked if f"/{name}_" in one]
    assert not list(empty.dist.rglob("*.whl"))


def test_what_goes_past_the_proxy_reaches_nothing(tmp_path: Path) -> None:
    """Otherwise the proxy's silence would prove nothing."""
    code = "import socket; socket.create_connection(('1.1.1.1', 80), 5)"
    with noting_proxy(tmp_path) as proxy:
        done = run_fenced([sys.executable, "-c", code], proxy.socket)
        assert done.returncode != 0
        assert "Network is unreachable" in done.stderr
        code = f"import urllib.request; urllib.request.urlopen({PLANTED!r}, timeout=30)"
        run_fenced([sys.executable, "-c", code], proxy.socket)
    assert proxy.asked == [f"GET {PLANTED}"]
