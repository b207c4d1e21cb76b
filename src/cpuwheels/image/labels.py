"""The labels of an image: what it was made from."""

from __future__ import annotations

from email.parser import HeaderParser
from typing import TYPE_CHECKING

from cpuwheels.core.digests import file_digest

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.image.base import Base
    from cpuwheels.pipeline.provenance import WheelNote
    from cpuwheels.wheel.kernel_wheel import KernelWheel

SOURCE = "https://github.com/vllm-project/vllm"
_OCI = "org.opencontainers.image"
_OURS = "cpuwheels"


def labels(wheel: KernelWheel, note: WheelNote, metadata: str, requirements: Path, base: Base) -> dict[str, str]:
    """Return the labels of an image.

    Args:
        wheel: The wheel in it.
        note: What the wheel was made from.
        metadata: Its METADATA.
        requirements: The lock of its requirements.
        base: What it stands on.
    """
    fields = HeaderParser().parsestr(metadata)
    found = {
        f"{_OCI}.title": fields["Name"],
        f"{_OCI}.description": fields["Summary"],
        f"{_OCI}.licenses": fields["License-Expression"],
        f"{_OCI}.source": SOURCE,
        f"{_OCI}.revision": note.source.commit,
        f"{_OCI}.version": wheel.version,
        f"{_OURS}.target": note.target,
        f"{_OURS}.source.digest": note.source.digest,
        f"{_OURS}.wheel": wheel.path.name,
        f"{_OURS}.wheel.sha256": wheel.sha256,
        f"{_OURS}.requirements.sha256": file_digest(requirements),
        f"{_OURS}.base": base.pins.root,
        f"{_OURS}.torch": base.torch,
        f"{_OURS}.fallback": base.fallback,
        f"{_OURS}.without": " ".join(base.pins.without),
    }
    return {name: value for name, value in found.items() if value}
