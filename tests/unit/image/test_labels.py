from __future__ import annotations

import hashlib
from pathlib import Path

from cpuwheels.config.debian_lock import DebianLock, DebianPackage
from cpuwheels.config.image_pins import ImagePins
from cpuwheels.image.base import Base
from cpuwheels.image.labels import labels
from cpuwheels.wheel.kernel_wheel import KernelWheel
from wheel_notes import wheel_note

METADATA = "Metadata-Version: 2.4\nName: vllm\nSummary: An engine\nLicense-Expression: Apache-2.0\n"
TORCH = DebianPackage(name="python3-torch", version="2.14.1+dfsg-1", path="torch", size=1, sha256="a" * 64)
LOCK = DebianLock(suites={}, architecture="amd64", packages=(TORCH,))


def test_labels_name_everything_that_an_image_is_made_from(tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text("demo==1\n")
    wheel = KernelWheel(tmp_path / "vllm-1.0.whl", "abc", "1.0+cpu", "2.13.0", {})
    pins = ImagePins(root="base", python="3.11", without=("triton",))
    base = Base(pins, LOCK, None, "torch 2.14.1 in place of 2.14.0")
    found = labels(wheel, wheel_note(commit="f" * 40), METADATA, lock, base)
    assert found == {
        "org.opencontainers.image.title": "vllm",
        "org.opencontainers.image.description": "An engine",
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.source": "https://github.com/vllm-project/vllm",
        "org.opencontainers.image.revision": "f" * 40,
        "org.opencontainers.image.version": "1.0+cpu",
        "cpuwheels.target": "x86",
        "cpuwheels.source.digest": "s",
        "cpuwheels.wheel": "vllm-1.0.whl",
        "cpuwheels.wheel.sha256": "abc",
        "cpuwheels.requirements.sha256": hashlib.sha256(b"demo==1\n").hexdigest(),
        "cpuwheels.base": "base",
        "cpuwheels.torch": "2.14.1+dfsg-1",
        "cpuwheels.fallback": "torch 2.14.1 in place of 2.14.0",
        "cpuwheels.without": "triton",
    }


def test_what_is_not_known_has_no_label(tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text("")
    wheel = KernelWheel(tmp_path / "vllm-1.0.whl", "abc", "1.0+cpu", "2.13.0", {})
    base = Base(ImagePins(root="base", python="3.11"), LOCK, None)
    found = labels(wheel, wheel_note(), "Name: vllm\n", lock, base)
    assert "org.opencontainers.image.revision" not in found
    assert "cpuwheels.fallback" not in found
    assert "cpuwheels.without" not in found
