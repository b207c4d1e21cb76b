"""Our wheel with the modules of upstream's side in place of ours, so that both can be timed and served."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.core.elf import read_elf
from cpuwheels.core.filesystem import remove_tree, storage_errors
from cpuwheels.core.process import run
from cpuwheels.toolchain.debian_compiler import patchelf
from cpuwheels.wheel.canonical import canonicalize
from cpuwheels.wheel.dist_info import dist_info_of

if TYPE_CHECKING:
    from collections.abc import Mapping

LIBRARIES = "vllm.libs"
"""Folder of a wheel's own libraries, as auditwheel names it."""

_SEARCHED = f"$ORIGIN/../{LIBRARIES}"


def write_upstream_wheel(ours: Path, modules: Mapping[str, Path], out: Path, *, work: Path, strip: Path) -> Path:
    """Write a wheel of upstream's modules: stripped, and loading the libraries that our wheel brings.

    Everything else is from our wheel: Python files, metadata, libnuma and the allocator.

    Args:
        ours: Our wheel.
        modules: Upstream's modules by name, such as ``_C_AVX2``; ours are replaced if they have one of these names.
        out: Folder of the wheel.
        work: For the steps between; emptied.
        strip: Strips a library.

    Returns:
        The wheel, with the file name of ours.

    Raises:
        CommandError: A tool failed.
        StoreError: The folder cannot be written.
    """
    log = work / "wheel.log"
    with storage_errors(work):
        remove_tree(work)
        work.mkdir(parents=True)
    raw, target = work / ours.name, out / ours.name
    with zipfile.ZipFile(ours) as archive, storage_errors(work):
        names = archive.namelist()
        record = f"{dist_info_of(names)}/RECORD"
        brought = {_plain(name): Path(name).name for name in names if name.startswith(f"{LIBRARIES}/")}
        files = {f"vllm/{name}.abi3.so": path for name, path in modules.items() if f"vllm/{name}.abi3.so" in names}
        with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as written:
            for name in names:
                if name in files:
                    written.write(_loadable(files[name], work / Path(name).name, brought, strip=strip, log=log), name)
                elif name != record and not name.startswith(f"{LIBRARIES}/libcpuwheels_"):
                    written.writestr(archive.getinfo(name), archive.read(name))
    with storage_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    canonicalize(raw, target, epoch=0)
    remove_tree(work)
    return target


def _plain(name: str) -> str:
    """Return a library's name without the digest that auditwheel adds: ``libnuma`` of ``libnuma-c2968dac.so.1.0.0``."""
    return Path(name).name.partition(".so")[0].rpartition("-")[0]


def _loadable(module: Path, copy: Path, brought: Mapping[str, str], *, strip: Path, log: Path) -> Path:
    """Write a stripped copy that finds the wheel's libraries."""
    run([strip, "--strip-unneeded", "-o", copy, module], log=log)
    with copy.open("rb") as stream:
        linked = read_elf(stream).needed
    renamed = [
        option
        for needed in linked
        if (own := brought.get(needed.partition(".so")[0]))
        for option in ("--replace-needed", needed, own)
    ]
    run([patchelf(), "--set-rpath", _SEARCHED, *renamed, copy], log=log)
    return copy
