"""What a step sees: what it may read, what it may write, and how paths with links in them lead there."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SYSTEM = tuple(
    Path(name)
    for name in (
        "/usr",
        "/bin",
        "/sbin",
        "/lib",
        "/lib32",
        "/lib64",
        "/libx32",
        # Without these the dynamic loader finds no library outside the usual folders, and Debian's cc leads nowhere.
        "/etc/ld.so.cache",
        "/etc/ld.so.conf",
        "/etc/ld.so.conf.d",
        "/etc/alternatives",
        "/etc/os-release",
        "/etc/localtime",
        # Which CPUs there are.
        "/sys/devices/system",
        # Where a system keeps its programs elsewhere.
        "/nix/store",
    )
)
"""What every step may read of the machine; what is not there is left out."""

_MOST_LINKS = 40  # as in the kernel's path resolution (path_resolution(7))


@dataclass(frozen=True)
class View:
    """What a step sees besides the system's programs.

    Attributes:
        work: The folder that it may write; its temporary files lie there, too.
        readable: Files and folders that it may read.
        writable: More files and folders that it may write.
    """

    work: Path
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()


@dataclass
class Places:
    """A view in terms of the file system.

    Attributes:
        binds: Real path → whether it may be written.
        links: Path of a link → what it says. Only links that lie outside of `binds`.
    """

    binds: dict[str, bool] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)

    def ordered(self) -> Iterator[tuple[str, str | bool]]:
        """Yield each path with its link's text, or with whether it may be written; folders before what is in them."""
        everything: dict[str, str | bool] = {**self.binds, **self.links}
        yield from sorted(everything.items(), key=lambda item: (item[0].count("/"), item[0]))


def places(view: View, system: Iterable[Path] = SYSTEM) -> Places:
    """Return which real files and folders a view is made of, and the links that lead to them.

    Only what a path names is visible in the end: a link to an interpreter below somebody's home folder shows the
    interpreter's own folder and nothing else of that home folder.

    Args:
        view: What a step sees.
        system: What every step sees.
    """
    found = Places()
    wanted = [(path, False) for path in (*system, *view.readable)]
    wanted += [(path, True) for path in (*view.writable, view.work)]
    for path, writable in wanted:
        real, links = follow(path)
        if os.path.lexists(real):
            found.binds[real] = found.binds.get(real, False) or writable
            found.links |= links
    for real in sorted(found.binds, key=lambda real: -real.count("/")):
        # What its nearest folder shows in the same way needs no place of its own.
        if found.binds[real] is _nearest(real, found.binds):
            del found.binds[real]
    found.links = {
        link: text
        for link, text in found.links.items()
        if link not in found.binds and _nearest(link, found.binds) is None
    }
    return found


def follow(path: Path) -> tuple[str, dict[str, str]]:
    """Return where a path leads in the end, and each link on the way with what it says."""
    links: dict[str, str] = {}
    # `..` is resolved step by step: behind a link it is not the folder in front of it.
    ahead = os.path.join(os.getcwd(), path).split("/")[::-1]  # noqa: PTH109, PTH118  (`Path` drops what is wanted here)
    here, left = "", _MOST_LINKS
    while ahead:
        part = ahead.pop()
        if part in {"", "."}:
            continue
        if part == "..":
            here = here.rpartition("/")[0]
            continue
        there = f"{here}/{part}"
        if left and os.path.islink(there):  # noqa: PTH114  (as above)
            left -= 1
            links[there] = text = os.readlink(there)  # noqa: PTH115  (as above)
            here = "" if text.startswith("/") else here
            ahead += text.split("/")[::-1]
        else:
            here = there
    return here or "/", links


def interpreter_places(python: Path, home: Path | None = None) -> tuple[Path, ...]:
    """Return what has to be readable so that an interpreter runs: the links to it, and its installation.

    An installation that lies directly in somebody's home folder (``~/bin/python3``, ``~/.local/bin/python3``) is
    shown in parts, so that what else is there stays out of sight.

    Args:
        python: The interpreter, or a link to it, as in a virtual environment.
        home: The home folder; that of this process if not given.
    """
    return program_places(python, ("lib/python3*", "lib/lib*.so*", "include/python3*"), home)


def program_places(
    program: Path,
    parts: Iterable[str] = ("lib/gcc*", "libexec/gcc*", "include/c++", "lib/*.so*", "lib64/*.so*", "bin/*"),
    home: Path | None = None,
) -> tuple[Path, ...]:
    """Return what has to be readable so that a program runs that brings files of its own.

    Args:
        program: The program, or a link to it; a compiler if `parts` are not given.
        parts: What of its installation is shown if that is somebody's home folder: glob patterns.
        home: The home folder; that of this process if not given.
    """
    real = Path(follow(program)[0])
    prefix = real.parent.parent
    if prefix in {Path("/"), Path("/usr")} or real.parent.name != "bin":
        return (program, real)
    homes = {Path(os.path.realpath(home or Path.home()))}
    homes |= {folder / ".local" for folder in homes}
    if any(folder.is_relative_to(prefix) for folder in homes):
        return (program, real, *sorted(path for part in parts for path in prefix.glob(part)))
    return (program, prefix)


def _nearest(path: str, binds: dict[str, bool]) -> bool | None:
    """Return whether the nearest folder of a path that has a place may be written; None if there is none."""
    while path := path.rpartition("/")[0]:
        if path in binds:
            return binds[path]
    return None
