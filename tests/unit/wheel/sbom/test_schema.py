"""What is no document of CycloneDX is refused by name, quickly, whoever wrote it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from cpuwheels.wheel.sbom.document import Document
from cpuwheels.wheel.sbom.parts import component, file
from cpuwheels.wheel.sbom.schema import LONGEST, read_document

GOOD = Document(component("demo", "1"), 5, [component("a", parts=[file("a.so", "a" * 64)])]).render()


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    data = json.loads(GOOD)
    change(data)
    return json.dumps(data).encode()


def test_a_good_one_is_returned() -> None:
    assert read_document(GOOD) == json.loads(GOOD)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not valid JSON"),
        (b"[]", "not CycloneDX 1.7"),
        (changed(lambda data: data.update(specVersion="1.6")), "not CycloneDX 1.7"),
        (changed(lambda data: data.update(bomFormat="SPDX")), "not CycloneDX 1.7"),
        (changed(lambda data: data.update(vendor="x")), "its top: .*'vendor' was unexpected"),
        (changed(lambda data: data["components"][0].pop("name")), "components/0: 'name' is a required property"),
        (
            changed(lambda data: data["components"][0]["components"][0]["hashes"][0].update(content="z")),
            "components/0/components/0/hashes/0/content: 'z'",
        ),
        (changed(lambda data: data.update(formulation=[{"steps": []}])), "formulation/0"),
        (GOOD.replace(b'"version"', b'"version": 1, "version"', 1), "twice"),
        (b'{"a":' * 1000, "nested"),
        (GOOD + b" " * LONGEST, "bytes|larger|more than"),
    ],
)
def test_what_is_none_is_refused(content: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_document(content)


def test_lists_that_would_be_compared_for_hours_are_refused_at_once() -> None:
    many = changed(lambda data: data.update(components=[{"type": "file", "name": str(one)} for one in range(9_000)]))
    assert len(many) < LONGEST
    began = time.monotonic()
    with pytest.raises(ValueError, match="a list of more than 512 entries"):
        read_document(many)
    assert time.monotonic() - began < 5
