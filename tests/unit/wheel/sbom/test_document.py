"""A document's bytes depend on its parts alone, and it keeps to the schema with the part that the library lacks."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.config.package_urls import generic, pypi
from cpuwheels.wheel.sbom.document import Document, Formulation
from cpuwheels.wheel.sbom.parts import component, file, reference
from cpuwheels.wheel.sbom.schema import read_document

SUBJECT = component("demo", "1", purl=pypi("demo", "1"), parts=[file("b.so", "b" * 64), file("a.so", "a" * 64)])
LIBRARIES = [component(name, "1", purl=generic(name, "1"), digest="c" * 64, expression="MIT") for name in "defgh"]
TOOLS = [component(name, "2", purl=pypi(name, "2"), within="build") for name in ("cmake", "ninja", "wheel")]


def document(seed: int = 0) -> Document:
    """Return a document whose parts are in an order of their own."""
    libraries, tools = LIBRARIES[:], TOOLS[:]
    shuffle = random.Random(seed).shuffle
    shuffle(libraries)
    shuffle(tools)
    tasks = {"kernels": [reference(one) for one in tools if one.name != "wheel"], "wheel": ["build:pkg:pypi/wheel@2"]}
    formulation = Formulation("key", tools, tasks)
    required = {"pkg:generic/d@1": ["pkg:generic/e@1"]}
    return Document(SUBJECT, 1_700_000_000, libraries, formulation, required)


def references(data: Any) -> Iterator[tuple[str, str]]:
    """Yield each reference in a document, with the key that it is under."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key in {"bom-ref", "ref"}:
                yield key, value
            elif key == "dependsOn":
                yield from (("ref", one) for one in value)
            else:
                yield from references(value)
    elif isinstance(data, list):
        for one in data:
            yield from references(one)


def test_it_keeps_to_the_schema_and_every_reference_leads_somewhere_once() -> None:
    data = read_document(document().render())
    found = list(references(data))
    made = [value for key, value in found if key == "bom-ref"]
    assert len(made) == len(set(made)) > 10
    assert {value for key, value in found if key == "ref"} <= set(made)
    (formula,) = data["formulation"]
    assert [one["name"] for one in formula["components"]] == ["cmake", "ninja", "wheel"]
    tasks = {
        one["name"]: [each["ref"] for each in one["resourceReferences"]] for one in formula["workflows"][0]["tasks"]
    }
    assert tasks == {
        "kernels": ["build:pkg:pypi/cmake@2", "build:pkg:pypi/ninja@2"],
        "wheel": ["build:pkg:pypi/wheel@2"],
    }
    depends = {one["ref"]: one.get("dependsOn", []) for one in data["dependencies"]}
    assert depends["pkg:generic/d@1"] == ["pkg:generic/e@1"]
    assert depends["pkg:pypi/demo@1"] == [f"pkg:generic/{name}@1" for name in "defgh"]


def test_the_order_of_the_parts_does_not_matter() -> None:
    first = document().render()
    assert all(document(seed).render() == first for seed in range(1, 6))


def test_neither_does_the_process() -> None:
    """Another time zone, locale and seed of hashes."""
    program = "import sys, test_document; sys.stdout.buffer.write(test_document.document(3).render())"
    env = os.environ | {"TZ": "Pacific/Kiritimati", "LC_ALL": "tr_TR.UTF-8", "PYTHONHASHSEED": "7"}
    env["PYTHONPATH"] = str(Path(__file__).parent)
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == document().render()


def test_its_time_is_that_of_the_source_and_its_number_one_of_its_content() -> None:
    data = json.loads(document().render())
    assert data["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"
    later = json.loads(replace(document(), epoch=1_700_000_001).render())
    assert data["serialNumber"].startswith("urn:uuid:")
    assert data["serialNumber"][23] == later["serialNumber"][23] == "5"  # the version of the UUID
    assert data["serialNumber"] != later["serialNumber"]


@pytest.mark.parametrize("epoch", [253_402_300_799, 253_402_300_800, 10**17])
def test_a_time_beyond_the_calendar_is_its_last_second(epoch: int) -> None:
    data = read_document(replace(document(), epoch=epoch).render())
    assert data["metadata"]["timestamp"] == "9999-12-31T23:59:59+00:00"


def test_without_a_formulation_there_is_none() -> None:
    plain = replace(document(), formulation=None, required={})
    assert "formulation" not in read_document(plain.render())
