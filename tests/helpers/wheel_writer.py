"""Writes small wheels, good ones and bad ones."""

from __future__ import annotations

import hashlib
import zipfile
from typing import TYPE_CHECKING

from cpuwheels.wheel.canonical import canonicalize
from cpuwheels.wheel.dist_info import record_digest, render_record
from elf_writer import Elf

if TYPE_CHECKING:
    from pathlib import Path

EPOCH = 1_700_000_000
NAME = "demo-1.0+cpu-cp38-abi3-manylinux_2_28_x86_64.whl"
INFO = "demo-1.0+cpu.dist-info"
METADATA = "Metadata-Version: 2.4\nName: demo\nVersion: 1.0+cpu\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: cp38-abi3-manylinux_2_28_x86_64\n"


def content(**changes: bytes) -> dict[str, bytes]:
    """Return the members of a good wheel; a keyword replaces one by its short name."""
    members = {
        "demo/__init__.py": b"",
        "demo/_C.abi3.so": Elf(versions={"libc.so.6": {"GLIBC_2.17": "memcpy"}}).write(),
        f"{INFO}/METADATA": METADATA.encode(),
        f"{INFO}/WHEEL": WHEEL.encode(),
    }
    short = {"library": "demo/_C.abi3.so", "metadata": f"{INFO}/METADATA", "wheel": f"{INFO}/WHEEL"}
    return members | {short.get(name, name): data for name, data in changes.items()}


def write_raw(path: Path, members: dict[str, bytes], **attributes: object) -> Path:
    """Write members as they come; the attributes are set on every entry."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            for key, value in attributes.items():
                setattr(info, key, value)
            archive.writestr(info, data)
    return path


def with_record(members: dict[str, bytes], info: str) -> dict[str, bytes]:
    """Return members of a wheel with the ``RECORD`` that lists them."""
    rows = [(name, digest(data), str(len(data))) for name, data in members.items()]
    return members | {f"{info}/RECORD": render_record([*rows, (f"{info}/RECORD", "", "")])}


def write_good(folder: Path, name: str = NAME, **changes: bytes) -> Path:
    """Write a canonical wheel."""
    raw = write_raw(folder / "raw.whl", content(**changes))
    canonicalize(raw, folder / name, epoch=EPOCH)
    raw.unlink()
    return folder / name


def digest(data: bytes) -> str:
    return record_digest(hashlib.sha256(data).digest())
