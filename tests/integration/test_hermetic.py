"""A build needs no network once everything is fetched, and what it builds gets none."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from raw_server import noting_server
from tiny_project import Tiny

pytestmark = pytest.mark.slow

CUT = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-current-user", "--net"]
"""A command begun so has a network of its own, with nothing in it, not even its loopback device."""


def test_a_build_passes_with_the_network_cut(tiny: Tiny, tiny_wheel: Path, tmp_path: Path) -> None:
    """Kernels are compiled, packed, installed and checked."""
    assert tiny_wheel.is_file()  # so everything is fetched
    with noting_server() as server:
        code = f"import urllib.request; urllib.request.urlopen({server.url('/x')!r}, timeout=5)"
        reach = [sys.executable, "-c", code]
        assert subprocess.run(reach, check=False, capture_output=True).returncode == 0
        assert subprocess.run([*CUT, *reach], check=False, capture_output=True).returncode != 0
    tree = tiny.changed_tree(tmp_path / "cut")
    here = dataclasses.replace(tiny, dist=tmp_path / "dist")
    command = [*CUT, *here.command("build", "x86", "--source", tree)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    assert "nothing to compile" not in done.stderr
    assert Path(done.stdout.strip()).is_file()


@pytest.mark.parametrize(
    ("file", "code", "named"),
    [
        (
            "CMakeLists.txt",
            'file(DOWNLOAD "{url}" got STATUS fault)\nif(fault)\n  message(FATAL_ERROR "${{fault}}")\nendif()\n',
            "CMake",
        ),
        ("setup.py", "import urllib.request\nurllib.request.urlopen({url!r}, timeout=5)\n", "setup.py"),
    ],
    ids=["cmake", "setup.py"],
)
def test_a_source_that_downloads_fails_in_its_step(
    tiny: Tiny, tmp_path: Path, file: str, code: str, named: str
) -> None:
    tree = tiny.changed_tree(tmp_path / "downloads")
    here = dataclasses.replace(tiny, dist=tmp_path / "dist")
    with noting_server() as server:
        path = tree / file
        path.write_text(path.read_text() + code.format(url=server.url("/x")))
        done = here.run("build", "x86", "--source", tree)
    assert done.returncode != 0
    assert server.asked == []
    assert named in done.stderr.partition("where:")[0], done.stderr
    assert not list(here.dist.rglob("*.whl"))
