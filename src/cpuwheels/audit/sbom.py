"""Whether a wheel has its bill of materials, and whether that agrees with the wheel and its note."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from cpuwheels.config.package_urls import library, pypi
from cpuwheels.core.digests import SHA256
from cpuwheels.core.errors import MalformedDataError
from cpuwheels.core.models import parse_as
from cpuwheels.core.text import parse_headers
from cpuwheels.wheel.dist_info import NOTE
from cpuwheels.wheel.sbom.schema import FILE, read_document
from cpuwheels.wheel.wheel_metadata import required_torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

LIBRARY = re.compile(r".*\.(?:so|dylib)(?:\.[0-9]+)*")
"""File names of extension modules and libraries."""

_TORCH = "torch"


class _Component(BaseModel):
    """A library as the note has it, as far as it is compared."""

    name: str
    version: str
    license: str
    digest: str
    package: str | None = None
    archive: str | None = None

    def purl(self) -> str:
        return str(library(self.name, self.version, self.digest, package=self.package, archived=self.archive))


class _Patch(BaseModel):
    file: str
    sha256: str
    state: str


class _OneDnn(BaseModel):
    patches: list[_Patch] = []


class _Source(BaseModel):
    version: str
    digest: str
    sdist: bool = False


class _Note(BaseModel):
    source: _Source
    components: list[_Component] = []
    patches: list[_Patch] = []
    onednn: _OneDnn | None = None


def sbom_faults(
    content: bytes | None, note: bytes, metadata: bytes, wheel: str, binaries: Mapping[str, str]
) -> Iterator[str]:
    """Yield what is wrong with the bill of materials of a wheel with a note.

    Args:
        content: The document; None if it is missing.
        note: The note.
        metadata: The wheel's ``METADATA``.
        wheel: Its file name.
        binaries: Path of each extension module and library in it → SHA-256, as 64 hex digits.
    """
    if content is None:
        yield f"it has no {FILE}"
        return
    try:
        said = parse_as(_Note, note, NOTE)
    except MalformedDataError as error:
        yield f"{NOTE} is {error.what}"
        return
    try:
        document = read_document(content)
    except ValueError as error:
        yield f"its {FILE} is {error}"
        return
    fields = parse_headers(metadata)
    try:
        torch = required_torch(fields.get_all("Requires-Dist", []), wheel)
    except ValueError as error:  # of a requirement, of its marker, of the file name
        yield f"METADATA has a requirement that cannot be evaluated: {error}"
        return
    subject = document.get("metadata", {}).get("component", {})
    for fault in (
        *_subject_faults(subject, said, wheel, str(fields["Name"]), str(fields["Version"])),
        *_component_faults(document.get("components", []), said, torch),
        *_file_faults([subject, *document.get("components", [])], binaries),
        *_patch_faults(document, subject, said),
    ):
        yield f"its {FILE} {fault}"


def _subject_faults(subject: Mapping[str, Any], note: _Note, wheel: str, name: str, version: str) -> Iterator[str]:
    found = (subject.get("name"), subject.get("version"))
    if found != (name, version):
        yield f"is of {found[0]!r:.80} {found[1]!r:.80}, the wheel is {name} {version}"
    elif subject.get("purl") != str(pypi(name, version, wheel)):
        yield f"does not name {wheel}"
    ancestors = subject.get("pedigree", {}).get("ancestors", [])
    digest = note.source.digest if note.source.sdist else ""
    if [(one.get("version"), _sha256(one)) for one in ancestors] != [(note.source.version, digest)]:
        yield f"names another source than {NOTE}"


def _component_faults(listed: Iterable[Mapping[str, Any]], note: _Note, torch: str) -> Iterator[str]:
    found: dict[str, Mapping[str, Any]] = {}
    for one in listed:
        if one["name"] in found:
            yield f"lists {one['name']!r:.80} twice"
        found[one["name"]] = one
    known = {each.name: each for each in note.components}
    yield from (f"does not list {name}" for name in sorted({*known, _TORCH} - found.keys()))
    yield from (f"lists {name!r:.80}, which {NOTE} does not" for name in sorted(found.keys() - known.keys() - {_TORCH}))
    for name in sorted(known.keys() & found.keys()):
        one, each = found[name], known[name]
        said = (one.get("version"), _licence(one), _digest(one, each.digest))
        if said != (each.version, each.license, each.digest):
            yield f"has another version, licence or digest of {name} than {NOTE}"
        elif one.get("purl") != each.purl():
            yield f"has {one.get('purl')!r:.200} for {name}; after {NOTE} it is {each.purl()}"
    if _TORCH in found and torch.removeprefix("==") != found[_TORCH].get("version", torch.removeprefix("==")):
        yield f"has torch {found[_TORCH].get('version')!r:.80}, the wheel requires torch{torch}"


def _file_faults(components: Iterable[Mapping[str, Any]], binaries: Mapping[str, str]) -> Iterator[str]:
    listed: dict[str, str] = {}
    for part in (part for one in components for part in one.get("components", [])):
        if part["name"] in listed:
            yield f"lists {part['name']!r:.80} twice"
        listed[part["name"]] = _sha256(part)
    yield from (f"does not list {path}" for path in sorted(binaries.keys() - listed.keys()))
    yield from (
        f"lists {path!r:.200}, which the wheel does not have" for path in sorted(listed.keys() - binaries.keys())
    )
    for path in sorted(listed.keys() & binaries.keys()):
        if listed[path] != binaries[path]:
            yield f"has another digest of {path} than the wheel"


def _patch_faults(document: Mapping[str, Any], subject: Mapping[str, Any], note: _Note) -> Iterator[str]:
    onednn: Mapping[str, Any] = next((one for one in document.get("components", []) if one["name"] == "oneDNN"), {})
    for of, title, patches in (
        (subject, "vLLM", note.patches),
        (onednn, "oneDNN", note.onednn.patches if note.onednn else []),
    ):
        listed = {patch.get("diff", {}).get("url") for patch in of.get("pedigree", {}).get("patches", [])}
        if listed != {f"patches/{one.file}#sha256={one.sha256}" for one in patches if one.state == "applied"}:
            yield f"lists other patches of {title} than {NOTE}"


def _sha256(component: Mapping[str, Any]) -> str:
    hashes = [str(one["content"]) for one in component.get("hashes", []) if one["alg"] == "SHA-256"]
    return hashes[0] if len(hashes) == 1 else ""


def _digest(component: Mapping[str, Any], wanted: str) -> str:
    """Return a component's digest in the form of the wanted one: a hash, a commit, or a property of ours."""
    if SHA256.fullmatch(wanted) and component.get("hashes"):
        return _sha256(component)
    commits = [str(one.get("uid")) for one in component.get("pedigree", {}).get("commits", [])]
    keys = [str(one.get("value")) for one in component.get("properties", []) if one["name"] == "cpuwheels:digest"]
    return next(iter([*commits, *keys]), "")


def _licence(component: Mapping[str, Any]) -> str:
    return " ".join(str(one.get("expression")) for one in component.get("licenses", []))
