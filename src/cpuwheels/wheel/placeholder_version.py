"""A placeholder for a commit's version while ``setup.py`` is asked, so that the answers serve other commits too.

Every commit has its own version, and for most commits the answers differ in nothing else. So ``setup.py`` is asked with
a placeholder for all versions of that form. Afterwards the placeholder is replaced where it is expected: in the
metadata, and in the file that setuptools-scm writes. If it is found anywhere else, ``setup.py`` is asked once more,
with the commit's own version.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cpuwheels.wheel.setup_py_cache import Answers

if TYPE_CHECKING:
    from pathlib import Path

_COMMIT = re.compile(r"(\d+)\.(\d+)\.(\d+)\.dev(\d+)\+(g[0-9a-f]+)")
PLACEHOLDER = "98765.43210.56789.dev12345+g0123456789abcdef"
"""It has the form of a commit's version, and nothing has this version."""

_TRACE = re.compile(rb"98765\D{1,2}43210\D{1,2}56789")
_METADATA = "METADATA"


def placeholder_for(version: str) -> str:
    """Return what is asked for in place of a version: the version itself if it is not of the form of a commit's."""
    return PLACEHOLDER if _COMMIT.fullmatch(version) else version


def with_version(answers: Answers, version: str, device: str, *, source: Path, work: Path) -> Answers | None:
    """Return answers with a commit's version in place of the placeholder; None if it cannot be replaced everywhere.

    Args:
        answers: Of a source that was asked with the placeholder.
        version: Replaces it.
        device: Upstream's label of the version in the metadata.
        source: The tree that was asked about; its own files do not hold the placeholder.
        work: For the files that are changed.
    """
    metadata = work / _METADATA.lower()
    for path in (path for path in answers.metadata.glob("*.dist-info/**/*") if path.is_file()):
        content = path.read_bytes()
        if path.name == _METADATA:
            before, after = (f"\nVersion: {one}.{device}\n".encode() for one in (PLACEHOLDER, version))
            content = content.replace(before, after)
        if _TRACE.search(content):
            return None
        copy = metadata / path.relative_to(answers.metadata)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(content)
    files = dict(answers.files)
    for name, path in answers.files.items():
        if path.is_relative_to(source):
            continue
        content = path.read_bytes()
        if not _TRACE.search(content):
            continue
        for before, after in zip(_forms(PLACEHOLDER), _forms(version), strict=True):
            content = content.replace(before, after)
        if _TRACE.search(content):
            return None
        files[name] = work / "files" / name
        files[name].parent.mkdir(parents=True, exist_ok=True)
        files[name].write_bytes(content)
        files[name].chmod(path.stat().st_mode)
    return Answers(metadata, files)


def _forms(version: str) -> tuple[bytes, bytes]:
    """Return a version as setuptools-scm writes it: as a string, and as a tuple."""
    major, minor, patch, number, commit = _COMMIT.fullmatch(version).groups()  # type: ignore[union-attr]
    return f"'{version}'".encode(), f"({major}, {minor}, {patch}, 'dev{number}', '{commit}')".encode()
