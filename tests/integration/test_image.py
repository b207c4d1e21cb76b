"""An image of a small wheel on Debian's packages: written twice, read by skopeo, unpacked by umoci, run, pushed."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import socket
import subprocess
import time
import zipfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console

from cpuwheels.config.image_pins import ImagePins
from cpuwheels.config.matrix import Matrix, load_matrix
from cpuwheels.config.options import BuildOptions, ImageOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import ImageError
from cpuwheels.core.store import Store, default_root
from cpuwheels.image import check
from cpuwheels.image.build import ARCHIVE, LAYOUT, RECORD, Written, build_images
from cpuwheels.image.oci import write_layout
from cpuwheels.image.push import push
from cpuwheels.image.root_filesystem import CERTIFICATES
from cpuwheels.image.tools import Tools
from cpuwheels.pipeline.context import open_context
from layout import ROOT
from sample_source import sha256
from small_wheels import write_wheel
from torch_wheels import PYTHON, write_torch
from wheel_notes import wheel_note

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent / "tiny_image"
EPOCH = 1_750_000_000


class Project:
    """A project with one wheel, whose requirements and torch are wheels of the test's own."""

    def __init__(self, base: Path) -> None:
        self.base = base
        locks = base / "root" / "locks"
        (locks / "serve").mkdir(parents=True)
        for name in ("image-amd64", "image-tools-amd64"):
            shutil.copy(ROOT / "locks" / f"{name}.yaml", locks)
        self.index = base / "index"
        cmake = self.offer("cmake", "4.0.0", {})
        script = {"demo-1.0.dist-info/entry_points.txt": "[console_scripts]\ndemo = demo:main\n"}
        demo = self.offer("demo", "1.0", {"demo/__init__.py": "def main():\n    print('demo')\n", **script})
        extra = self.offer("left-out", "1.0", {"left_out.py": ""}, stem="left_out")
        (locks / "build-tools.txt").write_text(f"cmake==4.0.0 --hash=sha256:{sha256(cmake)}\n")
        (locks / "serve" / f"x86-1.0-py{PYTHON}.txt").write_text(
            f"demo==1.0 \\\n    --hash=sha256:{sha256(demo)}\nleft-out==1.0 \\\n    --hash=sha256:{sha256(extra)}\n"
        )
        torch = write_torch(base / "links", "2.13.0+cpu")
        with zipfile.ZipFile(torch, "a") as archive:
            archive.writestr("torch/lib/libgomp.so.1", "runtime")
        self.wheel = self.vllm()

    def offer(self, name: str, version: str, files: dict[str, str], stem: str = "") -> Path:
        wheel = write_wheel(self.base / "wheels", stem or name, version, files)
        page = self.index / name / "index.html"
        page.parent.mkdir(parents=True)
        page.write_text(f'<a href="{wheel.as_uri()}">{wheel.name}</a>')
        return wheel

    def vllm(self, server: str = "", folder: str = "wheel") -> Path:
        info = "vllm-1.0+cpu.dist-info"
        files = {
            "vllm/__init__.py": "",
            "vllm/server.py": server or (HERE / "server.py").read_text(),
            "vllm/worker.py": (HERE / "worker.py").read_text(),
            "vllm/_C.abi3.so": "kernels",
            "vllm/libs/libtcmalloc_minimal.so.4": "allocator",
            f"{info}/entry_points.txt": "[console_scripts]\nvllm = vllm.server:main\n",
            f"{info}/cpuwheels.json": wheel_note(epoch=EPOCH, commit="c" * 40).render().decode(),
        }
        needs = ["torch==2.13.0", "demo==1.0", "left-out==1.0"]
        return write_wheel(self.base / folder, "vllm", "1.0+cpu", files, *needs, tag="cp38-abi3-manylinux_2_28_x86_64")

    def matrix(self) -> Matrix:
        found = load_matrix(ROOT)
        pins = ImagePins(root="image-amd64", python=PYTHON, without=("left-out",))
        torch = found.torch["2.13.0"].model_copy(update={"wheels": (), "index": "http://127.0.0.1:9/cpu"})
        target = found.target("x86").model_copy(update={"image": pins})
        return found.model_copy(update={"targets": (target,), "torch": {"2.13.0": torch}})

    def paths(self, name: str) -> Paths:
        cache = self.base / name / "cache"
        Store(default_root()).share(["downloads"], cache)
        return Paths(self.base / "root", cache, self.base / name / "dist")

    def build(self, name: str, **options: Any) -> Written:
        chosen = ImageOptions(**{"wheels": (self.wheel,), "out": self.base / name / "image", **options})
        reporter = Reporter("x86", Console(file=io.StringIO()))
        return build_images(self.paths(name), self.matrix(), ["x86"], chosen, reporter)

    def tools(self, name: str) -> Tools:
        matrix, reporter = self.matrix(), Reporter("x86", Console(file=io.StringIO()))
        return Tools(open_context(self.paths(name), matrix, matrix.target("x86"), BuildOptions(), reporter))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    base = tmp_path_factory.mktemp("image")
    made = Project(base)
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("UV_", "PIP_"))]:
            patch.delenv(name)
        patch.setenv("PIP_CONFIG_FILE", os.devnull)
        patch.setenv("PIP_FIND_LINKS", str(base / "links"))
        patch.setenv("UV_DEFAULT_INDEX", made.index.as_uri())
        patch.setenv("UV_CACHE_DIR", str(base / "uv"))
        patch.setenv("UV_NO_CONFIG", "1")
        patch.setattr(check, "_MODELS", HERE)
        yield made


@pytest.fixture(scope="module")
def written(project: Project) -> Written:
    return project.build("one")


def files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_an_image_is_the_same_on_another_day_in_other_folders(project: Project, written: Written) -> None:
    before = os.umask(0o077)
    try:
        again = project.build("two")
    finally:
        os.umask(before)
    assert files(again.folder) == files(written.folder)
    assert {"image.json", "docker.tar", "oci/index.json"} <= files(written.folder).keys()


def test_it_is_read_unpacked_and_served(project: Project, written: Written) -> None:
    checked = project.build("one", check=True)
    assert checked.digest == written.digest


def test_what_is_in_it(project: Project, written: Written, tmp_path: Path) -> None:
    root = check.unpack(project.tools("one"), written.folder / LAYOUT, written.tag, tmp_path / "bundle")
    packages = root / f"usr/local/lib/python{PYTHON}/dist-packages"
    assert {path.name for path in packages.iterdir() if not path.name.endswith(".dist-info")} == {
        "demo",
        "torch",
        "vllm",
    }
    assert (root / "usr/local/bin/demo").read_text().startswith(f"#!/usr/bin/python{PYTHON}\n")
    assert b"BEGIN CERTIFICATE" in (root / CERTIFICATES).read_bytes()
    assert (root / "usr/share/doc/libc6/copyright").is_file()
    assert not [name for name in ("apt", "dpkg", "gcc", "g++", "bash") if (root / "usr/bin" / name).exists()]
    for folder in (packages / "vllm", root / f"usr/lib/python{PYTHON}/json"):
        compiled = {path.name.partition(".")[0] for path in (folder / "__pycache__").glob("*.pyc")}
        assert compiled == {path.stem for path in folder.glob("*.py")}
    labels = json.loads((written.folder / RECORD).read_text())["images"]["x86"]["labels"]
    assert labels["cpuwheels.wheel.sha256"] == sha256(project.wheel)
    assert labels["org.opencontainers.image.revision"] == "c" * 40
    assert (written.folder / ARCHIVE).stat().st_size > sum(one.size for one in written.images["x86"].layers)


def test_another_wheel_brings_one_new_layer(project: Project, written: Written) -> None:
    changed = project.vllm(folder="other")
    with zipfile.ZipFile(changed, "a") as archive:
        archive.writestr("vllm/more.py", "")
    other = project.build("one", wheels=(changed,), out=project.base / "third")
    layers = [[layer.digest for layer in one.images["x86"].layers] for one in (written, other)]
    assert layers[0][:-1] == layers[1][:-1]
    assert layers[0][-1] != layers[1][-1]


def test_a_server_that_does_not_start_is_told_with_its_last_lines(project: Project) -> None:
    wheel = project.vllm("raise ImportError('no kernels')\n", folder="broken")
    with pytest.raises(ImageError, match="the server ended with status 1 before it took requests") as caught:
        project.build("one", wheels=(wheel,), out=project.base / "fourth", check=True)
    assert "no kernels" in caught.value.output


@pytest.fixture
def registry(project: Project, tmp_path: Path) -> Iterator[str]:
    """Debian's registry on this machine."""
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{found.getsockname()[1]}"
    config = tmp_path / "registry.json"
    storage = {"filesystem": {"rootdirectory": str(tmp_path / "registry")}}
    config.write_text(json.dumps({"version": "0.1", "storage": storage, "http": {"addr": host}}))
    program = project.tools("one").program("docker-registry")
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([program, "serve", config], stdout=log, stderr=log)
    try:
        for _ in range(200):
            try:
                assert httpx.get(f"http://{host}/v2/").status_code == 200
                break
            except httpx.TransportError:
                time.sleep(0.1)
        else:
            pytest.fail((tmp_path / "log").read_text())
        yield host
    finally:
        process.terminate()
        process.wait()


def manifest(host: str, tag: str) -> tuple[str, Any]:
    accept = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json"
    answer = httpx.get(f"http://{host}/v2/vllm/manifests/{tag}", headers={"Accept": accept})
    assert answer.status_code == 200
    return f"sha256:{hashlib.sha256(answer.content).hexdigest()}", answer.json()


def test_it_is_pushed_and_a_registry_has_the_same_bytes(project: Project, written: Written, registry: str) -> None:
    project.build("one", push=f"{registry}/vllm:1.0")
    digest, found = manifest(registry, "1.0")
    assert digest == written.digest
    for layer in found["layers"]:
        answer = httpx.get(f"http://{registry}/v2/vllm/blobs/{layer['digest']}")
        assert f"sha256:{hashlib.sha256(answer.content).hexdigest()}" == layer["digest"]


def test_an_index_is_pushed_with_its_images(project: Project, written: Written, registry: str, tmp_path: Path) -> None:
    image = written.images["x86"]
    digest = write_layout([image, replace(image, machine="s390x")], "1.0", tmp_path / "layout")
    push(project.tools("one"), tmp_path / "layout", "1.0", f"{registry}/vllm:all", {})
    pushed, index = manifest(registry, "all")
    assert pushed == digest
    for one in index["manifests"]:
        assert manifest(registry, one["digest"])[0] == one["digest"]


def test_a_registry_that_does_not_answer_is_told(project: Project, written: Written) -> None:
    with pytest.raises(ImageError, match="was not pushed"):
        push(project.tools("one"), written.folder / LAYOUT, written.tag, "127.0.0.1:9/vllm:1.0", {})
