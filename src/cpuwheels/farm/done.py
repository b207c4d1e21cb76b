"""What came of a job: files that are carried as one archive, each with its digest, or the reason why there are none."""

from __future__ import annotations

import io
import tempfile
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cpuwheels.config.remedies import error_classes
from cpuwheels.core.digests import entry_digest
from cpuwheels.core.errors import CpuwheelsError, DiskFullError, DownloadError, FarmError, SourceError, StoreError
from cpuwheels.core.text import first_names, printable
from cpuwheels.shared.archive import RefusedTreeError, pack, tree_names, unpack_tree

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.farm.job import Job

PASSING = frozenset({DownloadError.exit_code, SourceError.exit_code})
"""Exit codes of what may be gone a moment later, such as a network that is down."""

MACHINE = frozenset({DiskFullError.exit_code, StoreError.exit_code})
"""Exit codes that are about the machine: another one may do it."""

NOT_RUN = -1
"""In place of an exit code: a job that this one needs has failed."""

MOST = 1 << 30
"""Bytes that are carried for one job; a wheel of 0.33.0 with its reports has 18 MiB."""

_SHOWN = 5
_ERROR = "error: "
"""Begins the line in which a command says what is wrong."""
_LONGEST = 300


@dataclass(frozen=True)
class Done:
    """What came of a job.

    Attributes:
        key: Of the job.
        code: Exit code of its command; `NOT_RUN` if it was not begun.
        folder: Where its files belong below an output folder, such as ``x86/0.33.0``; empty if there are none.
        wheel: Name of the wheel in it.
        sha256: Of the wheel.
        kernels: Key of its kernels.
        audit: Key of their audit; empty if there was none.
        files: Digest of each file, by its path in the folder; empty where they are in place already.
        content: These files as one archive.
        seconds: How long it took.
        by: Who did it.
        output: Last lines of what its command printed.
    """

    key: str
    code: int = 0
    folder: str = ""
    wheel: str = ""
    sha256: str = ""
    kernels: str = ""
    audit: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    content: bytes = b""
    seconds: float = 0.0
    by: str = ""
    output: str = ""

    @property
    def passing(self) -> bool:
        """Whether another attempt may succeed."""
        return self.code in PASSING

    def error(self, job: Job) -> CpuwheelsError:
        """Return what is wrong, as an error of the class whose exit code the command had.

        Args:
            job: The job.
        """
        classes = {one.exit_code: one for one in error_classes()}
        where = f"{job}, {self.by}" if self.by else str(job)
        if self.code == NOT_RUN:
            return FarmError(f"{job} was not begun: {self.output}", where=where, next_step="see what failed before it")
        return classes.get(self.code, FarmError)(
            f"{job} failed: {said}" if (said := _said(self.output)) else f"{job} failed with status {self.code}",
            where=where,
            output=self.output,
            next_step="read what its command printed",
        )


def _said(output: str) -> str:
    """Return what a command that failed says is wrong; empty if it does not."""
    found = [line.removeprefix(_ERROR) for line in output.splitlines() if line.startswith(_ERROR)]
    return printable(found[-1])[:_LONGEST] if found else ""


def with_files(done: Done, folder: Path) -> Done:
    """Return the result with the files of a folder, to be carried to another machine.

    Raises:
        FarmError: There is something else than files and folders, or too much.
        OSError: They cannot be read.
    """
    try:
        names = tree_names(folder)
        content = _packed(folder, names)
    except RefusedTreeError as error:
        raise FarmError(
            f"the files of {done.wheel or done.key} are not carried: {error}",
            where=folder,
            next_step="see what its command has left there",
        ) from error
    return replace(done, content=content, files={name: entry_digest(folder / name) for name in names})


def _packed(folder: Path, names: list[str]) -> bytes:
    with tempfile.TemporaryFile() as stream:
        pack(folder, names, stream, level=0)  # wheels and shared entries are compressed already
        if stream.tell() > MOST:
            raise RefusedTreeError(f"they have more than {MOST:,} bytes")
        stream.seek(0)
        return stream.read()


def sha256_of(done: Done, name: str) -> str:
    """Return the sha256 that a result has for one of its files; empty if it has no such file, or a link."""
    kind, _, digest = done.files.get(name, "").partition(":")
    return "" if kind == "link" else digest


def put_files(done: Done, folder: Path) -> None:
    """Write the files of a result into a folder that is empty, and compare each with its digest.

    Raises:
        FarmError: They are not those that the result names, or what the archive has may not be unpacked.
        OSError: The folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        unpack_tree(io.BytesIO(done.content), folder)
        names = tree_names(folder)
        wrong = [name for name in {*names, *done.files} if name not in names or name not in done.files]
        wrong += [name for name in names if name not in wrong and entry_digest(folder / name) != done.files[name]]
        if done.wheel and done.wheel not in wrong and done.sha256 != sha256_of(done, done.wheel):
            wrong.append(done.wheel)
    except RefusedTreeError as error:
        raise refused(done, str(error), where=done.wheel or done.key) from error
    if wrong:
        why = f"other files than named: {first_names(sorted(wrong), _SHOWN)}"
        raise refused(done, why, where=done.wheel or done.key)


def refused(done: Done, why: str, what: object = "", where: str = "") -> FarmError:
    """Return that what a worker has sent is not taken.

    Args:
        done: The result.
        why: What is wrong with it.
        what: The job, for people, if it is known.
        where: What is wrong; the worker if it is empty.
    """
    return FarmError(
        f"what {done.by or 'a worker'} has sent{f' for {what}' if what else ''} is not taken: {why}",
        where=where or done.by,
        next_step="do not use that machine before it is known why; run the command again",
    )
