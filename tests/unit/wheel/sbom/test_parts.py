"""How parts are named: by package URLs that other programs read, and with a digest only where it is one of a file."""

from __future__ import annotations

import pytest
from cyclonedx.model.component import ComponentType
from packageurl import PackageURL

from cpuwheels.wheel.sbom.parts import DEBIAN, archive, component, debian, file, generic, github, patch, pypi, reference


@pytest.mark.parametrize(
    ("purl", "text"),
    [
        (pypi("vllm", "1.0+cpu", "a+b.whl"), "pkg:pypi/vllm@1.0%2Bcpu?file_name=a%2Bb.whl"),
        (pypi("torch", ""), "pkg:pypi/torch"),
        (github("uxlfoundation/oneDNN", "c" * 40), f"pkg:github/uxlfoundation/onednn@{'c' * 40}"),
        (debian("g++-15_15.3.0-5_amd64.deb", "4:15.3.0-5"), "pkg:deb/debian/g%2B%2B-15@4:15.3.0-5?arch=amd64"),
        (
            archive("gperftools", "2.16", "pool/g/g_2.16.orig.tar.gz", "a" * 64),
            f"pkg:generic/gperftools@2.16?checksum=sha256:{'a' * 64}&download_url={DEBIAN}/pool/g/g_2.16.orig.tar.gz",
        ),
        (generic("gcc", "15.3.0"), "pkg:generic/gcc@15.3.0"),
    ],
)
def test_package_urls(purl: PackageURL, text: str) -> None:
    assert str(purl) == text
    assert PackageURL.from_string(text) == purl


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
