"""Symbolic links in a tree that was made from outside: each has to stay in the tree, as a reader would follow it."""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING

from cpuwheels.core.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_MOST = 40
"""Links that Linux follows in one path; more, or a circle, it refuses with ELOOP."""


def link_faults(root: Path) -> Iterator[str]:
    """Yield what is wrong with the links below a folder, in the order of their paths."""
    ahead: list[tuple[str, ...]] = [()]
    while ahead:
        parts = ahead.pop()
        with os.scandir(root.joinpath(*parts)) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                if entry.is_symlink():
                    if fault := link_fault(root, (*parts, entry.name)):
                        yield fault
                elif entry.is_dir():
                    ahead.append((*parts, entry.name))


def link_fault(
    root: Path, link: tuple[str, ...], planned: Mapping[tuple[str, ...], str] = MappingProxyType({})
) -> str | None:
    """Return what is wrong with one link, or None.

    Every link on the way is followed, one part at a time: by comparing texts alone, ``a/link/..`` would be ``a``. What
    is not there counts as a folder, for it may be made later.

    Args:
        root: A folder; what lies above it is outside.
        link: Parts of the link's path below it.
        planned: Targets of links that are to be made.
    """
    here: list[str] = []
    ahead = list(reversed(link))
    followed = 0
    while ahead:
        part = ahead.pop()
        if part in {"", "."}:
            continue
        if part == "..":
            if not here:
                return f"{_shown(link)} is a link that leads outside"
            here.pop()
            continue
        target = planned.get((*here, part), "")
        try:
            target = target or root.joinpath(*here, part).readlink().as_posix()
        except OSError:  # no link, or not there
            here.append(part)
            continue
        followed += 1
        if target.startswith("/"):
            return f"{_shown(link)} is a link that leads outside"
        if followed > _MOST:
            return f"{_shown(link)} is a link that leads in a circle"
        ahead += reversed(target.split("/"))
    return None


def _shown(parts: tuple[str, ...]) -> str:
    return printable("/".join(parts))
