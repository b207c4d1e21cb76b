"""What a server keeps outside its processes while it runs, and may leave behind: sockets and shared memory."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterable

_MEMORY = "/dev/shm/"  # noqa: S108  (where Linux has it; nothing is written there)
_SHARED = re.compile(r"(/dev/shm/[^\n]*?)(?: \(deleted\))?$", re.MULTILINE)


def held_files(processes: Iterable[psutil.Process], proc: Path = Path("/proc")) -> set[Path]:
    """Return the sockets and the shared memory of processes that have names in the file system.

    Args:
        processes: Of one server.
        proc: The file system that describes processes; without one, there is no shared memory to be seen.
    """
    found: set[Path] = set()
    for process in processes:
        with contextlib.suppress(psutil.Error):
            names = [str(one.laddr) for one in process.net_connections("unix")]
            found |= {Path(name) for name in names if name.startswith("/")}
        with contextlib.suppress(OSError):
            texts = [(proc / str(process.pid) / "maps").read_text(encoding="utf-8", errors="replace")]
            texts += [_target(link) for link in (proc / str(process.pid) / "fd").iterdir()]
            found |= {Path(name) for text in texts for name in _SHARED.findall(text)}
    return found


def left_files(held: Iterable[Path]) -> tuple[list[str], int]:
    """Return what is still there of what a server held.

    Args:
        held: Its files while it ran.

    Returns:
        The names of shared memory, sorted: it stays occupied until the machine is restarted. And how many sockets: the
        name of a socket that nobody listens at occupies nothing.
    """
    names = sorted(str(path) for path in held if path.exists())
    shared = [name for name in names if name.startswith(_MEMORY)]
    return shared, len(names) - len(shared)


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""
