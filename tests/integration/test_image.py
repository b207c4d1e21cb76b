"""An image of a small wheel on Debian's packages: written twice, read by skopeo, unpacked by umoci, run, pushed."""

from __future__ import annotations

import hashlib
import json
import os
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

from cpuwheels.config.image_pins import ImagePins
from cpuwheels.core.errors import ImageError
from cpuwheels.image import check
from cpuwheels.image.build import ARCHIVE, LAYOUT, RECORD, Written
from cpuwheels.image.oci import write_layout
from cpuwheels.image.push import push
from cpuwheels.image.root_filesystem import CERTIFICATES
from cpuwheels.wheel.sbom.schema import read_document
from image_project import ImageProject
from sample_source import sha256
from torch_wheels import PYTHON

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ImageProject]:
    pins = ImagePins(root="image-amd64", python=PYTHON)
    made = ImageProject(tmp_path_factory.mktemp("image"), "x86", pins, "2.13.0", offered=True)
    with made.alone():
        yield made


@pytest.fixture(scope="module")
def written(project: ImageProject) -> Written:
    return project.build("one")


def files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_an_image_is_the_same_on_another_day_in_other_folders(project: ImageProject, written: Written) -> None:
    before = os.umask(0o077)
    try:
        again = project.build("two")
    finally:
        os.umask(before)
    assert files(again.folder) == files(written.folder)
    assert {"image.json", "docker.tar", "oci/index.json"} <= files(written.folder).keys()


def test_its_bill_of_materials_lies_next_to_it(project: ImageProject, written: Written) -> None:
    content = (written.folder / "sbom-x86.cdx.json").read_bytes()
    record = json.loads((written.folder / RECORD).read_text())
    digest = hashlib.sha256(content).hexdigest()
    assert record["images"]["x86"]["sbom"] == {"file": "sbom-x86.cdx.json", "sha256": digest}
    data = read_document(content)
    manifest = written.digest.removeprefix("sha256:")
    assert data["metadata"]["component"]["hashes"] == [{"alg": "SHA-256", "content": manifest}]
    found = {one["name"]: one for one in data["components"]}
    assert {"libc6", "python3.11-minimal", "demo", "torch", "vllm"} <= found.keys()
    assert found["torch"]["version"] == "2.13.0+cpu"
    assert found["vllm"]["hashes"][0]["content"] == sha256(project.wheel)


def test_it_is_read_unpacked_and_served(project: ImageProject, written: Written) -> None:
    checked = project.build("one", check=True)
    assert checked.digest == written.digest


def test_what_is_in_it(project: ImageProject, written: Written, tmp_path: Path) -> None:
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


def test_another_wheel_brings_one_new_layer(project: ImageProject, written: Written) -> None:
    changed = project.vllm(folder="other")
    with zipfile.ZipFile(changed, "a") as archive:
        archive.writestr("vllm/more.py", "")
    other = project.build("one", wheels=(changed,), out=project.base / "third")
    layers = [[layer.digest for layer in one.images["x86"].layers] for one in (written, other)]
    assert layers[0][:-1] == layers[1][:-1]
    assert layers[0][-1] != layers[1][-1]


def test_a_server_that_does_not_start_is_told_with_its_last_lines(project: ImageProject) -> None:
    wheel = project.vllm("raise ImportError('no kernels')\n", folder="broken")
    with pytest.raises(ImageError, match="the server ended with status 1 before it took requests") as caught:
        project.build("one", wheels=(wheel,), out=project.base / "fourth", check=True)
    assert "no kernels" in caught.value.output


@pytest.fixture
def registry(project: ImageProject, tmp_path: Path) -> Iterator[str]:
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


def test_it_is_pushed_and_a_registry_has_the_same_bytes(project: ImageProject, written: Written, registry: str) -> None:
    project.build("one", push=f"{registry}/vllm:1.0")
    digest, found = manifest(registry, "1.0")
    assert digest == written.digest
    for layer in found["layers"]:
        answer = httpx.get(f"http://{registry}/v2/vllm/blobs/{layer['digest']}")
        assert f"sha256:{hashlib.sha256(answer.content).hexdigest()}" == layer["digest"]


def test_an_index_is_pushed_with_its_images(
    project: ImageProject, written: Written, registry: str, tmp_path: Path
) -> None:
    image = written.images["x86"]
    digest = write_layout([image, replace(image, machine="s390x")], "1.0", tmp_path / "layout")
    push(project.tools("one"), tmp_path / "layout", "1.0", f"{registry}/vllm:all", {})
    pushed, index = manifest(registry, "all")
    assert pushed == digest
    for one in index["manifests"]:
        assert manifest(registry, one["digest"])[0] == one["digest"]


def test_a_registry_that_does_not_answer_is_told(project: ImageProject, written: Written) -> None:
    with pytest.raises(ImageError, match="was not pushed"):
        push(project.tools("one"), written.folder / LAYOUT, written.tag, "127.0.0.1:9/vllm:1.0", {})
