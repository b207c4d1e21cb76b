"""Writes small wheels that package managers install."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

from wheel_sboms import with_sbom
from wheel_writer import with_record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def write_wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, str] | None = None,
    *needs: str,
    tag: str = "py3-none-any",
    sbom: bool = False,
    python: str = "",
) -> Path:
    """Write a wheel, by default for any machine and without a bill of materials."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    pure = "true" if tag.endswith("-any") else "false"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    if python:
        metadata += f"Requires-Python: {python}\n"
    members = dict(files or {}) | {
        f"{info}/METADATA": metadata + "".join(f"Requires-Dist: {need}\n" for need in needs),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: {pure}\nTag: {tag}\n",
    }
    path = folder / f"{name}-{version}-{tag}.whl"
    contents = {path: text.encode() for path, text in members.items()}
    if sbom:
        contents = with_sbom(contents, info, path.name)
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in with_record(contents, info).items():
            archive.writestr(member, content)
    return path
