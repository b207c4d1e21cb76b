"""A wheel with a library without a licence is refused, and so is one whose licences are not what its note says."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from typing import Any

import pytest

from cpuwheels.audit.licences import licence_faults

INFO = "demo-1.dist-info"
TEXT = "third-party/numactl/copyright"
COMPONENT = {
    "name": "numactl",
    "libraries": ["libnuma.so.1", "libtool.so"],
    "texts": {TEXT: hashlib.sha256(b"terms").hexdigest()},
}
CODE = ("demo/_C.abi3.so", "demo.libs/libnuma-1.so.1", "demo/libs/libtool.so")


def faults(
    *code: str,
    components: list[dict[str, Any]] | None = None,
    text: bytes | None = b"terms",
    head: str = f"License-Expression: MIT\nLicense-File: {TEXT}\n",
    note: bool = True,
) -> list[str]:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(f"{INFO}/METADATA", f"Metadata-Version: 2.4\nName: demo\nVersion: 1\n{head}")
        if text is not None:
            archive.writestr(f"{INFO}/licenses/{TEXT}", text)
        if note:
            listed = {"components": [COMPONENT] if components is None else components}
            bundled = {"bundled_libraries": {"demo.libs/libnuma-1.so.1": "libnuma.so.1"}}
            archive.writestr(f"{INFO}/cpuwheels.json", json.dumps(listed | bundled))
    with zipfile.ZipFile(stream) as archive:
        return list(licence_faults(archive, code or CODE))


def test_a_wheel_with_all_its_licences() -> None:
    assert faults() == []
    assert faults("demo/_C.abi3.so", components=[], head="", text=None) == []


@pytest.mark.parametrize("library", ["demo.libs/libnuma-1.so.1", "demo/libs/libtool.so"])
def test_a_library_without_a_licence(library: str) -> None:
    message = f"{library} is a library that cpuwheels.json does not list with its licence"
    assert faults(library, components=[]) == [message]
    assert faults(library, note=False) == [message]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"text": None}, ["names the licence file", "copyright of numactl is missing"]),
        ({"text": b"other"}, ["has another digest"]),
        ({"head": ""}, ["METADATA does not name the licence file third-party/numactl/copyright"]),
        ({"head": f"License-File: {TEXT}\nLicense-Expression: Free\n"}, ["that is not one"]),
        ({"components": [COMPONENT | {"texts": {}}]}, ["numactl has no licence file"]),
    ],
)
def test_licences_that_are_not_what_the_note_says(given: dict[str, Any], words: list[str]) -> None:
    found = faults(**given)
    assert len(found) == len(words)
    assert all(word in fault for word, fault in zip(words, found, strict=True))
