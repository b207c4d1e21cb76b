"""An index behind a real web server, installed from with uv and pip; a publisher that is killed again and again."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urldefrag, urljoin

import httpx
import pytest
from uv import find_uv_bin

from cpuwheels.fetch.http_range import remote_file
from cpuwheels.index.bucket import Folder
from cpuwheels.index.check import check_index
from html_anchors import links
from nginx_server import Site, nginx
from tiny_project import Tiny, commit_all

pytestmark = pytest.mark.slow

KILLS = 100
PUBLISH = """
import os, random, signal, sys, time
from pathlib import Path
from cpuwheels.index.bucket import Folder
from cpuwheels.index.publish_wheel import publish_wheel
from cpuwheels.config.matrix import load_matrix

root, index, kills, *wheels = sys.argv[1:]
matrix, draw = load_matrix(Path(root)), random.Random(1)

def publish(place):
    for wheel in wheels:
        publish_wheel(Folder(place), Path(wheel), matrix, nightly=True)

began = time.monotonic()
publish(Path(index + "-timed"))
seconds = time.monotonic() - began
for _ in range(int(kills)):
    publisher = os.fork()
    while publisher == 0:
        publish(Path(index))
    time.sleep(draw.random() * seconds)
    os.kill(publisher, signal.SIGKILL)
    os.waitpid(publisher, 0)
    print("killed", flush=True)
    sys.stdin.readline()
"""
"""A publisher that is killed while it is at work, again and again."""


@dataclass(frozen=True)
class Served:
    """An index with several wheels, and its address.

    Attributes:
        root: Its folder.
        url: Where nginx serves it.
        commit: Of the newest wheel.
    """

    root: Path
    url: str
    commit: str


@pytest.fixture(scope="module")
def wheels(tiny: Tiny, tiny_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The stand-in's release, and wheels of two commits."""
    folder = tmp_path_factory.mktemp("clone") / "vllm"
    shutil.copytree(tiny.tree, folder)
    (folder / "PKG-INFO").unlink()
    commit_all(folder, "release", tag="v0.1.0")
    here = dataclasses.replace(tiny, dist=tmp_path_factory.mktemp("dist"))
    found = [tiny_wheel]
    for name in ("one", "two"):
        (folder / "vllm" / f"{name}.py").write_text("")
        commit = commit_all(folder, name)
        found.append(here.build("--repo", folder, "--source", commit))
    return found


@pytest.fixture(scope="module")
def served(
    tiny: Tiny, nginx_root: Path, wheels: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("index")
    for wheel in wheels:
        done = tiny.run("publish", wheel, "--index", root, "--nightly", "--no-locked")
        assert done.returncode == 0, done.stderr
    commits = json.loads((root / "commits.json").read_text())
    newest = next(row["commit"] for row in commits["newest"] if row["commit"])
    with nginx(nginx_root, tmp_path_factory.mktemp("nginx"), [Site(root)]) as (port,):
        yield Served(root, f"http://127.0.0.1:{port}/", newest)


def test_every_link_leads_somewhere(served: Served) -> None:
    ahead = [served.url, f"{served.url}nightly/cpu/", f"{served.url}{served.commit}/cpu/"]
    seen: set[str] = set()
    with httpx.Client() as client:
        while ahead:
            url = urldefrag(ahead.pop())[0]
            if url in seen:
                continue
            seen.add(url)
            page = client.get(url)
            assert page.status_code == 200, url
            if page.headers["content-type"].startswith("text/html"):
                ahead += [urljoin(url, link) for link in links(page.text)]
            if url.endswith(".whl"):
                assert client.get(f"{url}.metadata").text.startswith("Metadata-Version: ")
        for name in ("metadata.json", "index.v1.json"):
            assert client.get(f"{served.url}nightly/cpu/vllm/{name}").json()
    assert sum(url.endswith(".whl") for url in seen) == 3


def test_who_asks_for_json_gets_it(served: Served) -> None:
    page = f"{served.url}nightly/cpu/vllm/"
    accept = "application/vnd.pypi.simple.v1+json, text/html;q=0.1"
    answer = httpx.get(page, headers={"Accept": accept})
    assert answer.headers["content-type"] == "application/vnd.pypi.simple.v1+json"
    (file,) = answer.json()["files"]
    assert httpx.head(urljoin(page, file["url"])).status_code == 200
    assert httpx.get(page, headers={"Accept": "text/html"}).headers["content-type"].startswith("text/html")


@pytest.fixture
def python(tmp_path: Path) -> Path:
    subprocess.run([find_uv_bin(), "venv", "-q", "--seed", "--python", sys.executable, tmp_path / "venv"], check=True)
    return tmp_path / "venv" / "bin" / "python"


def installed(python: Path) -> str:
    code = "import importlib.metadata as m; print(m.version('vllm'))"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("view", ["nightly", "0.1.0", "commit"])
@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_it_is_installed_from(served: Served, python: Path, view: str, installer: str) -> None:
    url = f"{served.url}{served.commit if view == 'commit' else view}/cpu"
    if installer == "uv":
        command = [
            find_uv_bin(),
            "pip",
            "install",
            "-q",
            "--no-cache",
            "--no-deps",
            "--python",
            str(python),
            "vllm",
            "--extra-index-url",
            url,
            "--index-strategy",
            "first-index",
        ]
    else:
        command = [str(python), "-m", "pip", "install", "-q", "--no-cache-dir", "--no-deps", "--index-url", url, "vllm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert installed(python).startswith("0.1.0+cpu" if view == "0.1.0" else "0.1.1.dev")


def test_a_part_of_a_wheel_is_handed_out(served: Served) -> None:
    (wheel,) = served.root.glob("files/*/vllm-0.1.0+cpu*.whl")
    url = f"{served.url}{wheel.relative_to(served.root).as_posix().replace('+', '%2B')}"
    with remote_file(url) as stream:
        stream.seek(-22, os.SEEK_END)
        assert stream.read() == wheel.read_bytes()[-22:]


def test_kernels_come_from_it(tiny: Tiny, served: Served, tmp_path: Path) -> None:
    here = dataclasses.replace(tiny, dist=tmp_path / "dist")
    tree = tmp_path / "tree"
    shutil.copytree(tiny.tree, tree)
    (tree / "vllm" / "more.py").write_text("")
    done = here.run("build", "x86", "--source", tree, "--kernels-from", f"{served.url}nightly/cpu")
    assert done.returncode == 0, done.stderr
    record = json.loads((Path(done.stdout.strip()).parent / "record.json").read_text())
    assert record["precompiled"]["from"].startswith(served.url)


def test_a_publisher_killed_at_any_moment_leaves_a_good_index(tiny: Tiny, wheels: list[Path], tmp_path: Path) -> None:
    root = tmp_path / "index"
    command = [sys.executable, "-c", PUBLISH, tiny.root, root, str(KILLS), *wheels]
    interrupted = 0
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as publisher:
        assert publisher.stdin is not None
        assert publisher.stdout is not None
        for _ in range(KILLS):
            assert publisher.stdout.readline() == "killed\n"
            interrupted += (root / "publishing.json").exists()
            for page in root.rglob("index.html"):
                for link in links(page.read_text()):
                    path = httpx.URL(urljoin(page.as_uri(), urldefrag(link)[0])).path
                    assert Path(path).exists(), f"{page} leads to {path}"
            publisher.stdin.write("on\n")
            publisher.stdin.flush()
    assert interrupted > 0
    for wheel in wheels:
        assert tiny.run("publish", wheel, "--index", root, "--nightly", "--no-locked").returncode == 0
    assert check_index(Folder(root)) == []
