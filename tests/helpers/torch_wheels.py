"""Writes wheels that call themselves torch."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from cpuwheels.config.pins import TorchWheel
from sample_source import sha256
from small_wheels import write_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.environment.build_env import EnvironmentRequest

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_TAG = "cp" + PYTHON.replace(".", "")


def write_torch(folder: Path, version: str, *needs: str, cuda: str | None = None, header: str = "") -> Path:
    """Write a torch wheel."""
    files = {
        "torch/__init__.py": "",
        "torch/version.py": f"cuda: str | None = {cuda!r}\n",
        "torch/include/torch/all.h": header,
    }
    return write_wheel(folder, "torch", version, files, *needs)


def pinning(request: EnvironmentRequest, wheel: Path) -> EnvironmentRequest:
    """Return the request with a torch wheel pinned by its content."""
    known = TorchWheel(python=_TAG, machine="x86_64", sha256=sha256(wheel))
    return replace(request, pin=request.pin.model_copy(update={"wheels": (known,)}))
