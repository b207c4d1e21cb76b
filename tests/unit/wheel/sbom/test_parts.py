"""How parts are named: by their package URLs, and with a digest only where it is one of a file."""

from __future__ import annotations

from cyclonedx.model.component import ComponentType

from cpuwheels.config.package_urls import pypi
from cpuwheels.wheel.sbom.parts import component, file, patch, reference


def test_a_digest_of_something_else_is_no_hash() -> None:
    (one,) = component("a", digest="a" * 64).hashes
    assert (one.alg.value, one.content) == ("SHA-256", "a" * 64)
    for other in ("", "c" * 40, "266eac894cb2894bbbf134dd", "A" * 64):
        assert not component("a", digest=other).hashes


def test_references_are_package_urls_or_kinds_and_names() -> None:
    assert reference(component("a", "1", purl=pypi("a", "1"))) == "pkg:pypi/a@1"
    assert reference(component("a", "1", purl=pypi("a", "1"), within="build")) == "build:pkg:pypi/a@1"
    assert reference(file("vllm/_C.abi3.so", "a" * 64)) == "file:vllm/_C.abi3.so"
    assert file("vllm/_C.abi3.so", "a" * 64).type is ComponentType.FILE


def test_what_is_not_known_is_left_out() -> None:
    made = component("a", "", properties={"target": "x86", "alternates": ""}, expression="MIT")
    assert made.version is None
    assert [(one.name, one.value) for one in made.properties] == [("cpuwheels:target", "x86")]
    assert [one.value for one in made.licenses] == ["MIT"]


def test_a_patch_has_its_digest_and_the_faults_that_it_fixes() -> None:
    made = patch("0001-a.patch", "b" * 64, ("The exponential", "Half precision"))
    assert made.type.value == "unofficial"
    assert made.diff is not None
    assert str(made.diff.url) == f"patches/0001-a.patch#sha256={'b' * 64}"
    assert {(one.type.value, one.name) for one in made.resolves} == {
        ("defect", "The exponential"),
        ("defect", "Half precision"),
    }
