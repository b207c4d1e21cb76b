"""What may not be in a source tree: names that are reserved or collide, and links that leave the tree."""

from __future__ import annotations

import os
import unicodedata
from typing import TYPE_CHECKING

from cpuwheels.core.links import link_fault

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

RESERVED = ".cpuwheels-"
"""What the names of this program's own files begin with, which are at the top of a tree."""

_NO_NAMES = {"", ".", "..", ".git"}
_UNREADABLE = "\N{REPLACEMENT CHARACTER}"


def name_faults(names: Iterable[str]) -> list[str]:
    """Return what is wrong with the names of a tree's files and links, one line each.

    Args:
        names: Relative POSIX paths.
    """
    faults = []
    spelt: dict[str, str] = {}
    for name in names:
        path = ""
        for part in name.split("/"):
            folded = unicodedata.normalize("NFD", part.casefold())
            if folded in _NO_NAMES:
                faults.append(f"{name!r} is no name of a file in a tree")
            elif not path and folded.startswith(RESERVED):
                faults.append(f"{name!r}: names at the top that begin with {RESERVED} are this program's own")
            elif _UNREADABLE in part or not part.isprintable():
                faults.append(f"{name!r} has characters that cannot be printed")
            path = f"{path}/{part}" if path else part
            first = spelt.setdefault(unicodedata.normalize("NFD", path.casefold()), path)
            if first != path:
                faults.append(f"{path!r} and {first!r} are one name where capital letters do not count")
    return list(dict.fromkeys(faults))


def link_faults(root: Path, names: Iterable[str]) -> list[str]:
    """Return what is wrong with the links of a tree, one line each: they lead out of it, or in a circle.

    Args:
        root: The tree.
        names: Relative POSIX paths; those that are no links count for nothing.
    """
    faults = []
    for name in names:
        path = f"{root}/{name}"
        if not os.path.islink(path):  # noqa: PTH114  (thousands of files)
            continue
        target = os.readlink(path)  # noqa: PTH115
        if os.path.isabs(target):  # noqa: PTH117
            faults.append(f"{name!r} is a link to {target!r}: it has to be relative")
        # os.path.realpath gives up where a path becomes too long, and would not see where it leads.
        elif link_fault(root, tuple(name.split("/"))):
            faults.append(f"{name!r} is a link to {target!r}, which is outside of the tree or a circle")
    return faults
