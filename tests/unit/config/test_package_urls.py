"""How packages are named: by URLs that other programs read, and that are read back as they were."""

from __future__ import annotations

import pytest
from packageurl import PackageURL

from cpuwheels.config.package_urls import DEBIAN, archive, debian, generic, github, library, pypi
from cpuwheels.source.acl import NAME

COMMIT = "c" * 40


@pytest.mark.parametrize(
    ("purl", "text"),
    [
        (pypi("vllm", "1.0+cpu", "a+b.whl"), "pkg:pypi/vllm@1.0%2Bcpu?file_name=a%2Bb.whl"),
        (pypi("torch", ""), "pkg:pypi/torch"),
        (
            pypi("Setuptools_SCM", "1", repository="https://a.org/x?y"),
            "pkg:pypi/setuptools-scm@1?repository_url=https://a.org/x%3Fy",
        ),
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


@pytest.mark.parametrize(
    ("name", "digest", "given", "purl"),
    [
        ("numactl", "a" * 64, {"package": "libnuma1_2.0_amd64.deb"}, "pkg:deb/debian/libnuma1@1?arch=amd64"),
        ("oneDNN", COMMIT, {}, f"pkg:github/uxlfoundation/onednn@{COMMIT}"),
        (NAME, COMMIT, {}, f"pkg:github/arm-software/computelibrary@{COMMIT}"),
        ("somebody's", COMMIT, {}, "pkg:generic/somebody%27s@1"),
        ("libgcc", "a key", {}, "pkg:generic/libgcc@1"),
    ],
)
def test_a_library_is_named_by_where_it_comes_from(name: str, digest: str, given: dict[str, str], purl: str) -> None:
    assert str(library(name, "1", digest, **given)) == purl  # type: ignore[arg-type]


def test_a_library_from_an_archive_names_its_digest() -> None:
    assert library("gperftools", "1", "b" * 64, archived="pool/g.tar.gz") == archive(
        "gperftools", "1", "pool/g.tar.gz", "b" * 64
    )
