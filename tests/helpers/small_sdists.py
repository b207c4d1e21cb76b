"""Writes source distributions whose code tells that it was run, and folders that serve as a package index."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

PROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "{name}"
version = "{version}"
"""

BACKEND = """\
import pathlib, zipfile
pathlib.Path({mark!r}).write_text("run")
NAME, VERSION = {name!r}, {version!r}
def build_wheel(folder, config_settings=None, metadata_directory=None):
    info = f"{{NAME}}-{{VERSION}}.dist-info"
    with zipfile.ZipFile(f"{{folder}}/{{NAME}}-{{VERSION}}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{{info}}/METADATA", f"Metadata-Version: 2.1\\nName: {{NAME}}\\nVersion: {{VERSION}}\\n")
        wheel.writestr(f"{{info}}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{{info}}/RECORD", "")
    return f"{{NAME}}-{{VERSION}}-py3-none-any.whl"
"""


def write_sdist(folder: Path, name: str, version: str, mark: Path) -> Path:
    """Write a source distribution that writes a file when anything of it is run."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}.tar.gz"
    members = {
        "pyproject.toml": PROJECT.format(name=name, version=version),
        "backend.py": BACKEND.format(name=name, version=version, mark=str(mark)),
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
    }
    with tarfile.open(path, "w:gz") as archive:
        for member, text in members.items():
            entry = tarfile.TarInfo(f"{name}-{version}/{member}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return path


def list_files(index: Path, name: str, files: Iterable[Path], attributes: str = "") -> None:
    """Write a project's page of an index (PEP 503).

    Args:
        index: Folder of the index.
        name: Of the project.
        files: Of the project.
        attributes: Further ones of each link.
    """
    page = index / name / "index.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("".join(f'<a href="{path.as_uri()}" {attributes}>{path.name}</a>\n' for path in files))
