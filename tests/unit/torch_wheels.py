"""Writes wheels that call themselves torch."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING

from sample_source import sha256

from cpuwheels.model.pins import TorchWheel

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.environment import EnvironmentRequest

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_TAG = "cp" + PYTHON.replace(".", "")


def write_wheel(folder: Path, name: str, version: str, files: dict[str, str] | None = None, *needs: str) -> Path:
    """Write a wheel for any machine, without digests in its RECORD but for the files given."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    members = dict(files or {}) | {
        f"{info}/METADATA": metadata + "".join(f"Requires-Dist: {need}\n" for need in needs),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [
        f"{path},sha256={hashlib.sha256(text.encode()).hexdigest()},{len(text)}\n" for path, text in members.items()
    ]
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in members.items():
            archive.writestr(member, text)
        archive.writestr(f"{info}/RECORD", "".join(rows) + f"{info}/RECORD,,\n")
    return path


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
