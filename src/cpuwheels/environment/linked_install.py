"""Installing wheels that have most of their files in common, as those of neighbouring commits have.

Each content is unpacked once and linked wherever a wheel has it. An installer that unpacks each wheel anew makes
thousands of files, and ext4 is slow to make files shortly after many were removed (fs/ext4/ialloc.c: recently_deleted).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import threading
import zipfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, cast

from installer import install
from installer.destinations import SchemeDictionaryDestination
from installer.exceptions import InstallerError
from installer.records import Hash, RecordEntry, parse_record_file
from installer.sources import WheelFile
from installer.utils import copyfileobj_with_hashing

from cpuwheels.core.errors import UnusableWheelError
from cpuwheels.core.filesystem import storage_errors
from cpuwheels.fetch.uv import install_alone, site_packages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from installer.sources import WheelContentElement
    from installer.utils import Scheme

_INSTALLER = b"cpuwheels\n"
_SHA256 = re.compile("[A-Za-z0-9_-]{43}")


def install_one(wheel: Path, python: Path, log: Path, kept: Path | None) -> None:
    """Install a wheel, without its requirements.

    Args:
        wheel: The wheel.
        python: Interpreter of the environment.
        log: uv's output.
        kept: As in `install_linked`, where many wheels are tested in turn; nothing is kept without.

    Raises:
        CommandError: uv cannot install it.
        UnusableWheelError: It cannot be linked.
    """
    if kept:
        install_linked(wheel, python, kept)
    else:
        install_alone(wheel, python, log)


def install_linked(wheel: Path, python: Path, kept: Path) -> None:
    """Install a wheel, without its requirements, into an environment that does not have it.

    Args:
        wheel: The wheel.
        python: Interpreter of the environment.
        kept: Folder of what earlier wheels had, on the environment's file system so that nothing need be copied; made
            if it is missing, removed by the caller. Nobody may write to its files, nor to those of the environment.

    Raises:
        UnusableWheelError: It cannot be installed.
        StoreError: A folder cannot be written.
    """
    venv, site = python.parent.parent, str(site_packages(python.parent.parent))
    places = {"purelib": site, "platlib": site, "scripts": str(python.parent), "data": str(venv)}
    places["headers"] = str(venv / "include")
    with storage_errors(kept):
        kept.mkdir(parents=True, exist_ok=True)
    try:
        with storage_errors(venv), zipfile.ZipFile(wheel) as archive:
            into = _Linked(places, str(python), "posix", kept=str(kept))
            install(_Members(archive), into, {"INSTALLER": _INSTALLER})
    except (InstallerError, zipfile.BadZipFile, ValueError, KeyError, AssertionError, NotImplementedError) as error:
        raise UnusableWheelError(
            f"{wheel.name} cannot be installed",
            where=wheel,
            output=f"{type(error).__name__}: {error}",
            next_step="give a wheel that an installer accepts",
        ) from error


@dataclass(frozen=True)
class _Member:
    """A file of an archive that is only opened if its content is not there yet.

    Attributes:
        archive: The archive.
        item: What its list has of the file.
        sha256: What RECORD says of it, as there; empty if it says nothing.
        is_executable: Whether it is a program.
    """

    archive: zipfile.ZipFile
    item: zipfile.ZipInfo
    sha256: str
    is_executable: bool

    @property
    def kept(self) -> str:
        """Where its content is kept, below the folder for that.

        Raises:
            ValueError: RECORD says nothing of it.
        """
        if not _SHA256.fullmatch(self.sha256):
            raise ValueError(f"RECORD has no sha256 of {self.item.filename}")
        mark = "-x" if self.is_executable else ""
        return f"{self.sha256}-{self.item.CRC:08x}-{self.item.file_size}{mark}"

    def unpack(self, target: str) -> None:
        """Write it; whoever else does so at the same time writes the same.

        Raises:
            ValueError: Its content is not what RECORD says.
        """
        fresh = f"{target}.{threading.get_ident()}"
        with self.archive.open(self.item) as stream, open(fresh, "wb") as file:  # noqa: PTH123
            found, _ = copyfileobj_with_hashing(cast("BinaryIO", stream), file, "sha256")
        if found != self.sha256:
            raise ValueError(f"RECORD says sha256={self.sha256} of {self.item.filename}, which has {found}")
        os.chmod(fresh, 0o755 if self.is_executable else 0o644)  # noqa: PTH101
        os.replace(fresh, target)  # noqa: PTH105


class _Members(WheelFile):
    """A wheel whose files are handed on unopened, but for those that an installer changes."""

    def get_contents(self) -> Iterator[WheelContentElement]:
        records = {one[0]: one for one in parse_record_file(self.read_dist_info("RECORD").splitlines())}
        for item in self._zipfile.infolist():
            if item.is_dir():
                continue
            record = records.get(item.filename, (item.filename, "", ""))
            mode = item.external_attr >> 16
            is_executable = bool(stat.S_ISREG(mode) and mode & 0o111)
            if item.filename.startswith(f"{self.data_dir}/"):
                with self._zipfile.open(item) as stream:
                    yield record, cast("BinaryIO", stream), is_executable
            else:
                member = _Member(self._zipfile, item, record[1].removeprefix("sha256="), is_executable)
                yield record, cast("BinaryIO", member), is_executable


@dataclass
class _Linked(SchemeDictionaryDestination):
    """Links files whose content is known, and keeps that of the others."""

    kept: str = ""
    _folders: set[str] = field(default_factory=set)

    def write_to_fs(self, scheme: Scheme, path: str, stream: BinaryIO, is_executable: bool) -> RecordEntry:
        if not isinstance(stream, _Member):
            return super().write_to_fs(scheme, path, stream, is_executable)
        root = self.scheme_dict[scheme]
        target = os.path.normpath(f"{root}/{path}")
        if not target.startswith(f"{root}/"):
            raise ValueError(f"{path} is outside of the environment")
        folder = os.path.dirname(target)  # noqa: PTH120  (thousands of files)
        if folder not in self._folders:
            os.makedirs(folder, exist_ok=True)  # noqa: PTH103
            self._folders.add(folder)
        content = f"{self.kept}/{stream.kept}"
        if not os.path.exists(content):  # noqa: PTH110
            stream.unpack(content)
        _place(content, target)
        return RecordEntry(path, Hash("sha256", stream.sha256), stream.item.file_size)


def _place(content: str, target: str) -> None:
    with contextlib.suppress(OSError):  # a file system without hard links, or with too many of this one
        os.link(content, target)
        return
    if os.path.lexists(target):
        raise ValueError(f"{target} is there already")
    shutil.copy2(content, target)
