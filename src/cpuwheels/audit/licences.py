"""Whether a wheel lists each library that it holds, and has the licence of each one."""

from __future__ import annotations

import fnmatch
import hashlib
from typing import TYPE_CHECKING

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from pydantic import BaseModel

from cpuwheels.core.errors import MalformedDataError
from cpuwheels.core.models import parse_as
from cpuwheels.core.text import parse_headers
from cpuwheels.wheel.dist_info import NOTE, dist_info_of

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Iterable, Iterator

_MODULES = ("*.abi3.so", "*.cpython-*.so")
"""File names of extension modules; every other binary is a library."""


class _Component(BaseModel):
    """A component as the note has it, as far as it is compared."""

    name: str
    libraries: list[str]
    texts: dict[str, str]


class _Note(BaseModel):
    components: list[_Component] = []
    bundled_libraries: dict[str, str] = {}


def licence_faults(archive: zipfile.ZipFile, binaries: Iterable[str]) -> Iterator[str]:
    """Yield what is wrong with the licences of a wheel.

    Args:
        archive: The wheel.
        binaries: Names of its ELF and Mach-O files.
    """
    names = set(archive.namelist())
    info = dist_info_of(names)
    metadata = parse_headers(archive.read(f"{info}/METADATA") if f"{info}/METADATA" in names else b"")
    declared = set(metadata.get_all("License-File", []))
    for name in sorted(declared):
        if f"{info}/licenses/{name}" not in names:
            yield f"METADATA names the licence file {name}, which is missing"
    if (expression := metadata.get("License-Expression")) is not None:
        try:
            canonicalize_license_expression(expression)
        except InvalidLicenseExpression as error:
            yield f"METADATA has a licence expression that is not one: {error}"
    try:
        note = parse_as(_Note, archive.read(f"{info}/{NOTE}") if f"{info}/{NOTE}" in names else "{}", NOTE)
    except MalformedDataError as error:
        yield f"{NOTE} is {error.what}"
        return
    components = note.components
    for component in components:
        yield from _component_faults(archive, component, f"{info}/licenses", declared)
    listed = {soname for component in components for soname in component.libraries}
    sonames = note.bundled_libraries
    for name in sorted(binaries):
        file = name.rpartition("/")[2]
        if any(fnmatch.fnmatchcase(file, pattern) for pattern in _MODULES):
            continue
        if sonames.get(name, file) not in listed:
            yield f"{name} is a library that {NOTE} does not list with its licence"


def _component_faults(
    archive: zipfile.ZipFile, component: _Component, folder: str, declared: set[str]
) -> Iterator[str]:
    if not component.texts:
        yield f"{component.name} has no licence file"
    for text, digest in component.texts.items():
        if f"{folder}/{text}" not in archive.NameToInfo:
            yield f"the licence {text} of {component.name} is missing"
        elif hashlib.sha256(archive.read(f"{folder}/{text}")).hexdigest() != digest:
            yield f"the licence {text} of {component.name} has another digest than {NOTE} says"
        if text not in declared:
            yield f"METADATA does not name the licence file {text}"
