from __future__ import annotations

import hashlib
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.image.layers import Member, write_layer
from cpuwheels.image.oci import INDEX_TYPE, MANIFEST_TYPE, Image, Settings, write_docker_archive, write_layout

EPOCH = 1_700_000_000
SETTINGS = Settings(
    user="1000:1000",
    env={"PATH": "/bin", "LANG": "C.UTF-8"},
    entrypoint=["vllm", "serve"],
    folder="/home",
    port=8000,
    health=["python3", "-c", "pass"],
    labels={"b": "2", "a": "1"},
)


@pytest.fixture
def image(tmp_path: Path) -> Image:
    layers = [write_layer({name: Member(name.encode())}, EPOCH, tmp_path / name, name) for name in ("one", "two")]
    return Image("x86_64", EPOCH, SETTINGS, tuple(layers))


def blob(layout: Path, digest: str) -> bytes:
    data = (layout / "blobs" / digest.replace(":", "/")).read_bytes()
    assert f"sha256:{hashlib.sha256(data).hexdigest()}" == digest
    return data


def follow(layout: Path, descriptor: dict[str, Any]) -> Any:
    data = blob(layout, descriptor["digest"])
    assert len(data) == descriptor["size"]
    return json.loads(data)


def test_a_layout_leads_from_its_index_to_every_layer(image: Image, tmp_path: Path) -> None:
    layout = tmp_path / "layout"
    digest = write_layout([image], "1.0", layout)
    assert json.loads((layout / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
    (entry,) = json.loads((layout / "index.json").read_text())["manifests"]
    assert (entry["digest"], entry["mediaType"]) == (digest, MANIFEST_TYPE)
    assert entry["annotations"] == {"org.opencontainers.image.ref.name": "1.0"}
    assert entry["platform"] == {"architecture": "amd64", "os": "linux"}
    manifest = follow(layout, entry)
    assert [one["digest"] for one in manifest["layers"]] == [f"sha256:{one.digest}" for one in image.layers]
    for one in manifest["layers"]:
        assert len(blob(layout, one["digest"])) == one["size"]
    config = follow(layout, manifest["config"])
    assert config["rootfs"] == {"type": "layers", "diff_ids": [f"sha256:{one.diff_id}" for one in image.layers]}
    assert [one["created_by"] for one in config["history"]] == ["one", "two"]
    named = {path.name for path in (layout / "blobs" / "sha256").iterdir()}
    digests = {digest, manifest["config"]["digest"], *(one["digest"] for one in manifest["layers"])}
    assert named == {one.removeprefix("sha256:") for one in digests}


def test_a_container_is_started_as_the_settings_say(image: Image) -> None:
    config = json.loads(image.config())
    assert (config["created"], config["architecture"], config["os"]) == ("2023-11-14T22:13:20Z", "amd64", "linux")
    started = config["config"]
    assert started["User"] == "1000:1000"
    assert started["Entrypoint"] == ["vllm", "serve"]
    assert started["Env"] == ["PATH=/bin", "LANG=C.UTF-8"]
    assert started["ExposedPorts"] == {"8000/tcp": {}}
    assert started["Healthcheck"]["Test"] == ["CMD", "python3", "-c", "pass"]
    assert started["Healthcheck"]["Interval"] == 30_000_000_000
    assert list(started["Labels"]) == ["a", "b"]
    assert json.loads(image.manifest())["annotations"] == {"a": "1", "b": "2"}


def test_several_machines_become_one_index(image: Image, tmp_path: Path) -> None:
    layout = tmp_path / "layout"
    digest = write_layout([image, replace(image, machine="aarch64"), replace(image, machine="s390x")], "1.0", layout)
    (entry,) = json.loads((layout / "index.json").read_text())["manifests"]
    assert (entry["digest"], entry["mediaType"]) == (digest, INDEX_TYPE)
    index = follow(layout, entry)
    assert [one["platform"] for one in index["manifests"]] == [
        {"architecture": "amd64", "os": "linux"},
        {"architecture": "arm64", "os": "linux", "variant": "v8"},
        {"architecture": "s390x", "os": "linux"},
    ]
    for one in index["manifests"]:
        config = follow(layout, follow(layout, one)["config"])
        assert {name: config[name] for name in one["platform"]} == one["platform"]


def test_a_layout_replaces_the_one_before(image: Image, tmp_path: Path) -> None:
    layout = tmp_path / "layout"
    write_layout([image, replace(image, machine="s390x")], "1.0", layout)
    again = [write_layout([image], "1.0", layout), write_layout([image], "1.0", tmp_path / "other")]
    assert again[0] == again[1]
    files = [
        {path.relative_to(each).as_posix(): path.read_bytes() for path in each.rglob("*") if path.is_file()}
        for each in (layout, tmp_path / "other")
    ]
    assert files[0] == files[1]


def test_dockers_archive_has_the_same_files_and_docker_finds_them(image: Image, tmp_path: Path) -> None:
    layout, archive = tmp_path / "layout", tmp_path / "docker.tar"
    write_layout([image], "1.0", layout)
    write_docker_archive(layout, image, "vllm-cpu:1.0", archive)
    with tarfile.open(archive) as tar:
        members = {one.name: tar.extractfile(one).read() for one in tar.getmembers()}  # type: ignore[union-attr]
        assert {one.mtime for one in tar.getmembers()} == {EPOCH}
    (docker,) = json.loads(members["manifest.json"])
    assert docker["RepoTags"] == ["vllm-cpu:1.0"]
    assert members[docker["Config"]] == image.config()
    assert [hashlib.sha256(members[name]).hexdigest() for name in docker["Layers"]] == [
        one.digest for one in image.layers
    ]
    assert members["index.json"] == (layout / "index.json").read_bytes()
    first = archive.read_bytes()
    write_docker_archive(layout, image, "vllm-cpu:1.0", archive)
    assert archive.read_bytes() == first
