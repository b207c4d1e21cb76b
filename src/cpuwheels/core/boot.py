"""Marks of what is complete but was not synced: they count until the machine is started anew.

A power cut may take the content of any file that was not synced. Where syncing everything would take too long, as with
the object files of a build, a mark says since when the machine runs. A later start shows that what is marked may be
damaged, and it is made again.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from cpuwheels.core.filesystem import write_atomic
from cpuwheels.core.plain_file import read_plain

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_LONGEST = 1 << 10


def mark_complete(mark: Path) -> None:
    """Write a mark: what it stands for is complete.

    Raises:
        OSError: It cannot be written.
    """
    write_atomic(mark, _boot())


def is_complete(mark: Path) -> bool:
    """Return whether a mark is there, and the machine has not been started anew since it was written."""
    with suppress(OSError):
        return read_plain(mark, _LONGEST) == _boot().encode()
    return False


def _boot() -> str:
    """Return what is another one after each start of the machine; nothing where the system does not tell."""
    with suppress(OSError):
        return _BOOT_ID.read_text(encoding="ascii")
    return ""
