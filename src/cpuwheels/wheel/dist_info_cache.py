"""A wheel's ``.dist-info`` as the build backend writes it, kept for wheels that would get the same one.

If a commit changed only Python files, only the version is new to the backend. Where the backend writes the version is
known: in ``METADATA`` and in the file name. So the ``.dist-info`` is kept without the version, under a key of
everything else that the backend is given. The result is compared with the declared metadata, like a wheel that the
backend wrote itself.
"""

from __future__ import annotations

import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING

import tomli_w

from cpuwheels.core.digests import code_digest, file_digest, make_key, text_digest
from cpuwheels.wheel.dist_info import dist_info_of

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.core.store import Store
    from cpuwheels.wheel.overlay import Parts

KIND = "described"

_LAYOUT = 1
_FILES = "dist-info"
_TAGS = "tags.txt"
_METADATA = "METADATA"
_NO_VERSION = "0"
"""Replaces the version."""


class DistInfoCache:
    """The ``.dist-info`` for wheels of some parts, if it was kept, and the place to keep it.

    Args:
        parts: What the wheel is made of.
        backend: Names the build environment and the platform.
        store: Where it is kept.
    """

    def __init__(self, parts: Parts, backend: str, store: Store) -> None:
        self._parts, self._store = parts, store
        project = parts.project
        self._key = make_key(
            layout=_LAYOUT,
            code=code_digest(),
            backend=backend,
            table=text_digest(tomli_w.dumps(replace(parts, project=replace(project, version=_NO_VERSION)).table())),
            readme=text_digest(project.readme),
            licenses={name: file_digest(parts.licenses / name) for name in project.license_files},
        )

    def wheel(self, folder: Path) -> Path | None:
        """Return a wheel with the kernels alone, as the backend would write it; None if nothing was kept.

        Args:
            folder: Where it goes; made.
        """
        entry = self._store.find(KIND, self._key)
        if entry is None:
            return None
        version = self._parts.project.version
        distribution, _, tags = (entry / _TAGS).read_text(encoding="utf-8").partition(" ")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{distribution}-{version}-{tags}.whl"
        info = f"{distribution}-{version}.dist-info"
        with zipfile.ZipFile(path, "w", strict_timestamps=False) as archive:
            for name, kernel in self._parts.kernels.items():
                archive.write(kernel, name)
            for file in sorted(found for found in (entry / _FILES).rglob("*") if found.is_file()):
                content = file.read_bytes()
                name = file.relative_to(entry / _FILES).as_posix()
                if name == _METADATA:
                    content = content.replace(_line(_NO_VERSION), _line(version), 1)
                archive.writestr(f"{info}/{name}", content)
        return path

    def keep(self, wheel: Path) -> None:
        """Keep the ``.dist-info`` of a wheel that the backend wrote, if the version is where it is expected.

        Raises:
            StoreError: The store cannot be written.
        """
        version = self._parts.project.version
        distribution, named, tags = wheel.stem.split("-", 2)
        with zipfile.ZipFile(wheel) as archive:
            info = dist_info_of(archive.namelist())
            below = {name.removeprefix(f"{info}/"): name for name in archive.namelist() if name.startswith(f"{info}/")}
            files = {name: archive.read(whole) for name, whole in below.items() if name != "RECORD"}
        line = _line(version)
        if named != version or info != f"{distribution}-{version}.dist-info" or line not in files[_METADATA]:
            return
        files[_METADATA] = files[_METADATA].replace(line, _line(_NO_VERSION), 1)

        def make(folder: Path) -> None:
            for name, content in files.items():
                path = folder / _FILES / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            (folder / _TAGS).write_text(f"{distribution} {tags}", encoding="utf-8")

        self._store.get(KIND, self._key, make)


def _line(version: str) -> bytes:
    return f"\nVersion: {version}\n".encode()
