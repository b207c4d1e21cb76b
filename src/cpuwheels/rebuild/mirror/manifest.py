"""``manifest.json`` of a mirror: which files and repositories it has, and which wheels they are for."""

from __future__ import annotations

import re
from pathlib import Path  # noqa: TC003  (pydantic reads the annotations)
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, StringConstraints, ValidationError

from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import MalformedDataError, MirrorError
from cpuwheels.core.models import Commit, Sha256, Strict
from cpuwheels.core.parse import parse_json
from cpuwheels.core.plain_file import open_plain, read_plain
from cpuwheels.fetch.file_names import is_file_name

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
FILES, PAGES, CLONES = "files", "simple", "git"
"""Folders of a mirror: files by digest, an index of the Python packages among them, repositories."""

_LARGEST = 64 << 20
_PROJECT = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def _file_name(text: str) -> str:
    if not is_file_name(text):
        msg = f"{text!r:.100} is not a name for a file"
        raise ValueError(msg)
    return text


FileName = Annotated[str, AfterValidator(_file_name)]
Project = Annotated[str, StringConstraints(pattern=rf"^{_PROJECT.pattern}$", max_length=128)]


class MirroredFile(Strict):
    """A file, below its digest."""

    name: FileName
    sha256: Sha256
    size: int = Field(ge=0)
    stage: Annotated[str, StringConstraints(pattern=r"^[a-z-]+$", max_length=40)]
    """What it is for."""
    project: Project | None = None
    """The Python package that it is a wheel of."""

    @property
    def place(self) -> str:
        """Its path in the mirror."""
        return f"{FILES}/{self.sha256}/{self.name}"


class MirroredClone(Strict):
    """A repository with some commits of a project."""

    kind: Literal["vllm", "onednn", "acl", "cpuwheels"]
    name: FileName
    """Of its folder, or of a bundle."""
    commits: tuple[Commit, ...]
    sha256: Sha256 | None = None
    """Of a bundle."""

    @property
    def place(self) -> str:
        """Its path in the mirror."""
        return f"{CLONES}/{self.name}"


class MirroredWheel(Strict):
    """A wheel that the mirror is for."""

    name: FileName
    sha256: Sha256
    target: str
    source: str
    program: Commit
    """The cpuwheels that built it."""
    files: tuple[Sha256, ...]
    """What it is built from."""
    missing: tuple[str, ...] = ()
    """What a build may ask for and the mirror does not have, since this wheel was not made from it."""


class Manifest(Strict):
    """All that a mirror has."""

    format: Literal[1] = FORMAT
    files: tuple[MirroredFile, ...] = ()
    clones: tuple[MirroredClone, ...] = ()
    wheels: tuple[MirroredWheel, ...] = ()

    def merged(self, other: Manifest) -> Manifest:
        """Return what two manifests have together; the other one's wheels replace those of the same digest."""
        files = {(one.sha256, one.name): one for one in (*self.files, *other.files)}
        clones: dict[tuple[str, str], MirroredClone] = {}
        for one in (*self.clones, *other.clones):
            known = clones.get((one.kind, one.name))
            commits = tuple(sorted({*one.commits, *(known.commits if known else ())}))
            clones[one.kind, one.name] = one.model_copy(update={"commits": commits})
        wheels = {one.sha256: one for one in (*self.wheels, *other.wheels)}
        return Manifest(
            files=tuple(files[key] for key in sorted(files)),
            clones=tuple(clones[key] for key in sorted(clones)),
            wheels=tuple(wheels[key] for key in sorted(wheels)),
        )


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a mirror.

    Raises:
        MirrorError: There is none, or it is no manifest.
    """
    path = folder / MANIFEST
    try:
        return Manifest.model_validate(parse_json(read_plain(path, _LARGEST), path))
    except OSError as error:
        raise MirrorError(
            f"there is no mirror: {MANIFEST} cannot be read: {error.strerror}",
            where=folder,
            next_step="name the folder that nox -s mirror made",
        ) from error
    except (MalformedDataError, ValidationError) as error:
        raise MirrorError(
            f"{MANIFEST} is none of a mirror",
            where=path,
            output=str(error).partition("\n")[0],
            next_step="make the mirror again, or use the version of cpuwheels that made it",
        ) from error


def check_files(folder: Path, manifest: Manifest) -> None:
    """Compare all files of a mirror with their digests.

    Raises:
        MirrorError: One is missing or has other bytes; the first ones are listed.
    """
    pinned = [(one.place, one.sha256) for one in manifest.files]
    pinned += [(one.place, one.sha256) for one in manifest.clones if one.sha256]
    found = ((place, _fault(folder / place, sha256)) for place, sha256 in pinned)
    faults = [f"{place}: {fault}" for place, fault in found if fault]
    clones = (one.place for one in manifest.clones if not one.sha256)
    faults += [f"{place}: it is missing" for place in clones if not (folder / place / "HEAD").is_file()]
    if faults:
        raise MirrorError(
            f"the mirror is damaged: {faults[0]}",
            where=folder,
            output="\n".join(faults[:20]),
            next_step="run nox -s mirror with the same folder and wheels: it fetches what is missing or damaged again",
        )


def _fault(path: Path, sha256: str) -> str:
    try:
        handle = open_plain(path)
    except OSError as error:
        return error.strerror or "it cannot be read"
    with open(handle, "rb"):  # noqa: PTH123  (a descriptor)
        found = file_digest(f"/dev/fd/{handle}")
    return "" if found == sha256 else f"it has sha256 {found}"
