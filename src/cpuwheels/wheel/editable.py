"""A wheel turned into one that installs its kernels and metadata, and finds everything else in a checkout."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from cpuwheels.core.errors import WheelError
from cpuwheels.core.filesystem import replacing, storage_errors
from cpuwheels.wheel.dist_info import content_digest, dist_info_of, render_record

if TYPE_CHECKING:
    from collections.abc import Iterable

FINDER = "_vllm_editable"
_SOURCE = Path(__file__).parent / "resources" / "editable_finder.py"
_VERSION = "_version.py"
_LIBRARIES = ".libs/"


def editable_wheel(wheel: Path, checkout: Path, target: Path) -> None:
    """Write the editable form of a wheel.

    It holds the extension modules with the libraries that they bring along, the version file that upstream's build
    writes, and the metadata. A ``.pth`` file puts the checkout on the path and starts a finder for the former.

    Args:
        wheel: A finished wheel of the checkout.
        checkout: Folder with the packages.
        target: Where the editable wheel goes, in one rename; its name has to be the wheel's.

    Raises:
        WheelError: It is not a wheel.
        StoreError: ``target`` cannot be written.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            dist_info = dist_info_of(archive.namelist())
            infos = [info for info in archive.infolist() if _is_kept(info.filename, dist_info)]
            members = {info.filename: archive.read(info) for info in infos}
            modes = {info.filename: info.external_attr for info in infos}
    except zipfile.BadZipFile as error:
        raise WheelError(f"{wheel.name} is not a wheel: {error}", where=wheel) from error
    members |= {
        f"{FINDER}.pth": f"{checkout}\nimport {FINDER}\n".encode(),
        f"{FINDER}.py": _SOURCE.read_bytes(),
        f"{FINDER}.json": (json.dumps(module_files(members), indent=1) + "\n").encode(),
    }
    record = f"{dist_info}/RECORD"
    rows = [(name, content_digest(content), str(len(content))) for name, content in members.items()]
    members[record] = render_record([*rows, (record, "", "")])
    with storage_errors(target.parent), replacing(target) as part, zipfile.ZipFile(part, "w") as archive:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = modes.get(name, 0o644 << 16)
            archive.writestr(entry, content)


def module_files(names: Iterable[str]) -> dict[str, str]:
    """Return the modules among a wheel's files, with their files."""
    found = {}
    for name in names:
        path = PurePosixPath(name)
        if (path.suffix == ".so" and _LIBRARIES not in name) or path.name == _VERSION:
            found[".".join((*path.parent.parts, path.name.partition(".")[0]))] = name
    return found


def _is_kept(name: str, dist_info: str) -> bool:
    if name.startswith(f"{dist_info}/"):
        return not name.endswith("/RECORD")
    return name.endswith((".so", f"/{_VERSION}")) or _LIBRARIES in name
