"""The output folder: a finished wheel and what belongs to it appear there, the wheel last and in one rename."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cpuwheels.config.installation import command_line
from cpuwheels.core.errors import UnusableWheelError, WheelError
from cpuwheels.core.filesystem import make_folders, remove_tree, replace_tree, storage_errors, sync_folder, sync_tree
from cpuwheels.pipeline.built_wheel import RECORD

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cpuwheels.config.paths import Paths

ABOUT_A_WHEEL = ("*.whl.provenance.json", "*.whl.intoto.jsonl", "*.whl.*.attestation", "*.whl.provenance")
"""Files about one wheel's bytes: its provenance and signatures of it, which other bytes make wrong."""

KEPT_LOGS = 10
"""Log folders of earlier runs kept for each target."""


def new_logs(paths: Paths, target: str) -> Path:
    """Make the folder for this run's logs and remove the oldest ones.

    Raises:
        StoreError: The output folder cannot be written.
    """
    folder = paths.dist / "logs" / target
    with storage_errors(paths.dist, next_step="make the output folder writable or pass --dist"):
        make_folders(folder)
        for old in sorted(path for path in folder.iterdir() if path.is_dir())[: -KEPT_LOGS + 1]:
            remove_tree(old)
        while True:  # another run may begin in the same microsecond
            logs = folder / datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
            with suppress(FileExistsError):
                logs.mkdir()
                return logs


@contextmanager
def staging(paths: Paths, target: str, version: str) -> Iterator[Path]:
    """Yield an empty folder next to the output folder, on the same file system; it is removed afterwards.

    Raises:
        StoreError: The output folder cannot be written.
    """
    folder = paths.dist / target / f".new-{version}"
    with storage_errors(paths.dist, next_step="make the output folder writable or pass --dist"):
        remove_tree(folder)
        make_folders(folder)
    try:
        yield folder
    finally:
        remove_tree(folder)


def put_in_place(staged: Path, output: Path) -> Path:
    """Move everything staged to the output folder and return the wheel's place there.

    What belongs to the wheel goes first, and stays without its record until all of it is there; the wheel follows in
    one rename; a wheel of another name that an earlier build left there is removed last. So whenever this is cut short,
    a wheel with a record is the one that the record is about, with all that belongs to it. Provenance and signatures of
    the wheel that was there before are removed with its record.

    Raises:
        WheelError: There is not exactly one wheel staged.
        StoreError: The output folder cannot be written.
    """
    wheels = sorted(staged.glob("*.whl"))
    if len(wheels) != 1:
        raise WheelError(
            f"{len(wheels)} wheels are staged, expected one", where=staged, next_step="remove that folder and run again"
        )
    with storage_errors(output, next_step="make the output folder writable or pass --dist"):
        make_folders(output)
        sync_tree(staged)
        (output / RECORD).unlink(missing_ok=True)
        for old in [path for pattern in ABOUT_A_WHEEL for path in output.glob(pattern)]:
            old.unlink()
        sync_folder(output)
        for item in sorted(staged.iterdir(), key=lambda item: (item.name == RECORD, item.name)):
            if item not in wheels:
                replace_tree(item, output / item.name)
        finished = wheels[0].replace(output / wheels[0].name)
        sync_folder(output)
        for other in output.glob("*.whl"):
            if other != finished:
                other.unlink()
        sync_folder(output)
    return finished


def newest_wheel(paths: Paths, target: str) -> Path:
    """Return the newest wheel of a target in the output folder.

    Raises:
        UnusableWheelError: There is none.
    """
    found = sorted((paths.dist / target).glob("[!.]*/*.whl"), key=lambda path: path.stat().st_mtime, reverse=True)
    if not found:
        raise UnusableWheelError(
            f"there is no wheel for target {target} in {paths.dist}",
            where=paths.dist / target,
            next_step=f"build one with {command_line('build', target)}, or name one with --wheel",
        )
    return found[0]
