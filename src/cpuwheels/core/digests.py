"""Keys: a digest of everything a result depends on. Same key, same bytes, no work."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY_LENGTH = 24
"""Hex digits of a key: 96 bits, far from any collision among the entries of one store."""

SHA256 = re.compile(r"[0-9a-f]{64}")
"""A sha256 as it is written."""

COMMIT = re.compile(r"[0-9a-f]{40}")
"""The hash of a commit as git writes it with SHA-1."""

_CHUNK = 1 << 20
_CODE = ("*.py", "*.j2")
_DATA = "data"
"""Folder of an installed package with the project's files: no code of this program, and not there in a checkout."""


def file_digest(path: Path | str) -> str:
    """Return the sha256 of a file as 64 hex digits.

    Sources have thousands of small files; opening them through `Path` would double the time.
    """
    digest = hashlib.sha256()
    handle = os.open(path, os.O_RDONLY)
    try:
        while chunk := os.read(handle, _CHUNK):
            digest.update(chunk)
    finally:
        os.close(handle)
    return digest.hexdigest()


def text_digest(text: str) -> str:
    """Return the sha256 of a text's UTF-8 bytes as 64 hex digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def tree_files(root: Path) -> list[Path]:
    """List every file and symbolic link below a folder, sorted by their relative POSIX path."""
    return [root / name for name in tree_names(root)]


def tree_names(root: Path) -> list[str]:
    """List the relative POSIX paths of every file and symbolic link below a folder, sorted.

    Sources have thousands of files and are listed several times in a build, so this does without `Path`.
    """
    return list(tree_contents(root).files)


@dataclass(frozen=True)
class TreeContents:
    """What is below a folder, as relative POSIX paths.

    Attributes:
        files: Files and symbolic links, sorted.
        empty_folders: Folders without anything in them, sorted.
        others: FIFOs, sockets and devices, sorted.
    """

    files: tuple[str, ...]
    empty_folders: tuple[str, ...]
    others: tuple[str, ...]


def tree_contents(root: Path) -> TreeContents:
    """List what is below a folder; a folder that is not there is empty."""
    found: list[str] = []
    empty: list[str] = []
    others: list[str] = []
    ahead = [""]
    while ahead:
        below = ahead.pop()
        try:
            with os.scandir(f"{root}/{below}") as entries:
                is_empty = True
                for entry in entries:
                    is_empty = False
                    if entry.is_symlink() or entry.is_file():
                        found.append(f"{below}{entry.name}")
                    elif entry.is_dir():
                        ahead.append(f"{below}{entry.name}/")
                    else:
                        others.append(f"{below}{entry.name}")
                if below and is_empty:
                    empty.append(below.rstrip("/"))
        except OSError:
            if not below:
                break
            raise
    return TreeContents(tuple(sorted(found)), tuple(sorted(empty)), tuple(sorted(others)))


def entry_digest(path: Path | str) -> str:
    """Return the digest of one tree entry: a file's content and executable bit, or a link's target.

    A file that runs with its owner's or group's rights has another one than the same file without them.
    """
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        return "link:" + text_digest(os.readlink(path))  # noqa: PTH115  (a string, as in `file_digest`)
    kind = "s" if mode & (stat.S_ISUID | stat.S_ISGID) else "x" if mode & stat.S_IXUSR else "-"
    return f"{kind}:{file_digest(path)}"


def tree_digest(root: Path, parts: list[str] | None = None) -> str:
    """Return one digest of a folder's files: names, contents, executable bits and link targets.

    Args:
        root: The folder.
        parts: Names below it (files or folders) to restrict the digest to; absent ones are left out.
    """
    starts = [root] if parts is None else [root / part for part in parts]
    files: list[Path] = []
    for start in starts:
        files += [start] if start.is_file() else tree_files(start) if start.is_dir() else []
    return digest_of_entries({path.relative_to(root).as_posix(): entry_digest(path) for path in files})


def digest_of_entries(digests: Mapping[str, str]) -> str:
    """Return one digest of a tree from the relative path and digest of each of its entries."""
    return text_digest("\n".join(sorted(f"{name}\0{digest}" for name, digest in digests.items())))


def code_digest() -> str:
    """Return one digest of this program's own code, for the keys of results that it makes or checks.

    The code is read once, at the first call: what is edited later is not what runs.
    """
    return _code_digest(Path(__file__).parents[1])


@functools.cache
def _code_digest(package: Path) -> str:
    return package_digest(package)


def package_digest(package: Path) -> str:
    """Return the digest of a package's code, as provenance names a version of this program; it stays as it is.

    Args:
        package: The folder with its modules.
    """
    found = (path.relative_to(package) for pattern in _CODE for path in package.rglob(pattern))
    files = {path.as_posix(): package / path for path in found if path.parts[0] != _DATA}
    return text_digest(json.dumps({name: file_digest(path) for name, path in sorted(files.items())}))


def make_key(**inputs: Any) -> str:  # noqa: ANN401  (anything JSON or pydantic can write)
    """Return the key of a result from its named inputs.

    Inputs are written as canonical JSON (sorted names, no blanks), so their order does not matter.

    Raises:
        TypeError: An input is neither JSON, a path nor a pydantic model.
    """
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"), default=_plain)
    return text_digest(text)[:KEY_LENGTH]


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, PurePath):
        return value.as_posix()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    msg = f"{type(value).__name__} cannot be part of a key"
    raise TypeError(msg)
