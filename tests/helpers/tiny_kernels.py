"""Some of upstream's operators as a small library, and wheels with it."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

from layout import INTEGRATION

KERNELS = INTEGRATION / "mutants" / "kernels.cpp"
INFO = "vllm-0.1.0+cpu.dist-info"
METADATA = "Metadata-Version: 2.1\nName: vllm\nVersion: 0.1.0+cpu\nRequires-Dist: torch==2.13.0+cpu\n"
NAME = "vllm-0.1.0+cpu-cp38-abi3-manylinux_2_28_x86_64.whl"


def wheel_of(library: Path, folder: Path) -> Path:
    """Write a wheel with a library and return its path."""
    members = {
        "vllm/__init__.py": b"",
        "vllm/_C.abi3.so": library.read_bytes(),
        f"{INFO}/METADATA": METADATA.encode(),
        f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp38-abi3-manylinux_2_28_x86_64\n",
    }
    record = "".join(f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in members.items())
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / NAME, "w") as archive:
        for name, data in (members | {f"{INFO}/RECORD": f"{record}{INFO}/RECORD,,\n".encode()}).items():
            archive.writestr(name, data)
    return folder / NAME


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
