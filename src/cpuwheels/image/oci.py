"""An image as files: configuration, manifest and index of the OCI image layout, and docker's archive of the same.

https://github.com/opencontainers/image-spec has the formats. ``Healthcheck`` is docker's own field of the
configuration; podman and others read it, and the specification says that unknown fields are ignored.
"""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO
from typing import TYPE_CHECKING, Any

from cpuwheels.core.filesystem import link_or_copy, remove_tree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cpuwheels.image.layers import Layer

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
_CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
_LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"
_REF = "org.opencontainers.image.ref.name"
_SECOND = 1_000_000_000
"""Nanoseconds, docker's unit of time."""

_PLATFORMS = {
    "x86_64": {"architecture": "amd64", "os": "linux"},
    "aarch64": {"architecture": "arm64", "os": "linux", "variant": "v8"},
    "s390x": {"architecture": "s390x", "os": "linux"},
}


@dataclass(frozen=True)
class Settings:
    """How a container of an image is started.

    Attributes:
        user: Number of its user and group, such as ``1000:1000``.
        env: Variables.
        entrypoint: The command that a user's arguments follow.
        folder: Working folder.
        port: Which it listens on.
        health: Command that succeeds while it answers.
        labels: What the image is made from.
    """

    user: str
    env: Mapping[str, str]
    entrypoint: Sequence[str]
    folder: str
    port: int
    health: Sequence[str]
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Image:
    """One image of one machine.

    Attributes:
        machine: As the kernel names it.
        epoch: When it was made, in seconds since 1970.
        settings: How it is started.
        layers: The lowest first.
    """

    machine: str
    epoch: int
    settings: Settings
    layers: tuple[Layer, ...]

    @property
    def platform(self) -> dict[str, str]:
        """The machine, as images name it."""
        return _PLATFORMS[self.machine]

    def config(self) -> bytes:
        """Return the image's configuration."""
        created, settings = datetime.fromtimestamp(self.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), self.settings
        return _json(
            {
                "created": created,
                **self.platform,
                "config": {
                    "User": settings.user,
                    "ExposedPorts": {f"{settings.port}/tcp": {}},
                    "Env": [f"{name}={value}" for name, value in settings.env.items()],
                    "Entrypoint": list(settings.entrypoint),
                    "WorkingDir": settings.folder,
                    "Labels": dict(sorted(settings.labels.items())),
                    "StopSignal": "SIGTERM",
                    "Healthcheck": {
                        "Test": ["CMD", *settings.health],
                        "Interval": 30 * _SECOND,
                        "Timeout": 10 * _SECOND,
                        "StartPeriod": 600 * _SECOND,
                        "Retries": 3,
                    },
                },
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.diff_id}" for layer in self.layers]},
                "history": [{"created": created, "created_by": layer.created_by} for layer in self.layers],
            }
        )

    def manifest(self) -> bytes:
        """Return the image's manifest."""
        return _json(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST_TYPE,
                "config": _descriptor(self.config(), _CONFIG_TYPE),
                "layers": [
                    {"mediaType": _LAYER_TYPE, "digest": f"sha256:{layer.digest}", "size": layer.size}
                    for layer in self.layers
                ],
                "annotations": dict(sorted(self.settings.labels.items())),
            }
        )


def write_layout(images: Sequence[Image], tag: str, folder: Path) -> str:
    """Write images as an OCI image layout and return the digest that the tag names.

    Several images, each of another machine, become one image index.

    Args:
        images: At least one.
        tag: Name of the image, or of the index, in the layout.
        folder: The layout; replaced. Layers are hard links to the store's where the file system allows it.

    Raises:
        OSError: It cannot be written.
    """
    remove_tree(folder)
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    entries = []
    for image in images:
        manifest = image.manifest()
        for data in (image.config(), manifest):
            _write_blob(blobs, data)
        for layer in image.layers:
            if not (blobs / layer.digest).exists():
                link_or_copy(str(layer.path), str(blobs / layer.digest))
        entries.append(_descriptor(manifest, MANIFEST_TYPE) | {"platform": image.platform})
    top = entries[0]
    if len(images) > 1:
        index = _json({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": entries})
        _write_blob(blobs, index)
        top = _descriptor(index, INDEX_TYPE)
    named = top | {"annotations": {_REF: tag}}
    (folder / "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))
    (folder / "index.json").write_bytes(_json({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [named]}))
    return str(top["digest"])


def write_docker_archive(layout: Path, image: Image, name: str, target: Path) -> None:
    """Write a layout of one image as a tar archive that ``docker load`` and ``podman load`` read.

    It is the layout itself with docker's own ``manifest.json`` in addition, so it is an OCI archive as well.

    Args:
        layout: The layout.
        image: What it holds.
        name: Repository and tag, such as ``vllm:0.32.0-cpu``.
        target: The file to write.

    Raises:
        OSError: It cannot be written.
    """
    config = f"blobs/sha256/{hashlib.sha256(image.config()).hexdigest()}"
    layers = [f"blobs/sha256/{layer.digest}" for layer in image.layers]
    docker = _json([{"Config": config, "RepoTags": [name], "Layers": layers}])
    files = sorted(path for path in layout.rglob("*") if path.is_file())
    with tarfile.open(target, "w", format=tarfile.USTAR_FORMAT) as tar:
        _add(tar, "manifest.json", docker, image.epoch)
        for path in files:
            _add(tar, path.relative_to(layout).as_posix(), path, image.epoch)


def _add(tar: tarfile.TarFile, name: str, content: bytes | Path, epoch: int) -> None:
    info = tarfile.TarInfo(name)
    info.mtime, info.mode = epoch, 0o644
    if isinstance(content, bytes):
        info.size = len(content)
        tar.addfile(info, BytesIO(content))
        return
    with content.open("rb") as stream:
        info.size = os.fstat(stream.fileno()).st_size
        tar.addfile(info, stream)


def _write_blob(blobs: Path, data: bytes) -> None:
    (blobs / hashlib.sha256(data).hexdigest()).write_bytes(data)


def _descriptor(data: bytes, media_type: str) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": f"sha256:{hashlib.sha256(data).hexdigest()}", "size": len(data)}


def _json(data: object) -> bytes:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()
