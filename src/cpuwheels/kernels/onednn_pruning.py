"""Which files of oneDNN no extension module links, so that the next build can leave them out.

oneDNN compiles every primitive, needed or not; about half of its object files are archive members that the linker
then skips. What is left out is learned from link maps, for each content of oneDNN, and a mistake only costs time:
a module that turns out to need one of those files is linked again with all of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cpuwheels.core.elf import exported, read_elf
from cpuwheels.core.filesystem import storage_errors, write_atomic

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.kernels.request import KernelRequest
    from cpuwheels.kernels.workspace import Workspace

_MEMBER = re.compile(r"libdnnl\.a\((?P<member>[^)]+)\)")
"""An archive member as GNU ld's link map names it."""


def read_unused(*places: Path) -> list[str]:
    """Return the list of the first place that has one: paths below oneDNN's sources, sorted."""
    for place in places:
        if place.is_file():
            lines = place.read_text(encoding="utf-8", errors="replace").splitlines()
            return sorted({line for line in lines if line and not line.startswith("#")})
    return []


def write_unused(place: Path, unused: list[str], heading: str = "") -> None:
    """Write a list of unused files.

    Raises:
        StoreError: It cannot be written.
    """
    with storage_errors(place.parent):
        write_atomic(place, "".join(f"# {line}\n" for line in heading.splitlines()) + "".join(f"{u}\n" for u in unused))


def unused_files(workspace: Workspace) -> list[str]:
    """Return the compiled files of oneDNN that nothing in a finished build links, from the link maps.

    A map names members without their folders, so a file counts as used if one of the same name is.
    """
    used: set[str] = set()
    for link_map in workspace.link_maps():
        used |= {match["member"] for match in _MEMBER.finditer(link_map.read_text(encoding="utf-8", errors="replace"))}
    below = f"{workspace.onednn}/"
    found = [
        entry["file"].removeprefix(below)
        for entry in workspace.compilations()
        if entry["file"].startswith(below) and entry["output"].rsplit("/", 1)[-1] not in used
    ]
    return sorted(found) if used else []


def still_unused(known: list[str], found: list[str]) -> list[str]:
    """Return what is unused by this build and by those before it, so that two sources do not undo each other's list."""
    return sorted(set(known) & set(found)) if known else found


def unused_name(request: KernelRequest) -> str:
    """Return the name of the list of oneDNN's files that nothing links: of one content, machine and backend."""
    backend = "-acl" if request.acl and request.acl.commit else ""
    return f"onednn-{request.target.machine}{backend}-{request.onednn.digest[:16] if request.onednn else 'none'}.txt"


def lacks_onednn(workspace: Workspace) -> list[str]:
    """Return the symbols of oneDNN that modules need and nothing defines, because a file was left out."""
    libraries = workspace.libraries()
    lacking: set[str] = set()
    for path in (*map(workspace.module, workspace.modules()), *libraries):
        with path.open("rb") as stream:
            lacking |= {name for name in read_elf(stream).loose if "4dnnl" in name or name.startswith("dnnl_")}
    for path in libraries:
        with path.open("rb") as stream:
            lacking -= exported(stream, lacking)
    return sorted(lacking)
