"""How packages are named: by URLs that other programs read, and that are read back as they were."""

from __future__ import annotations

import pytest
from packageurl import PackageURL

from cpuwheels.config.package_urls import DEBIAN, archive, debian, generic, github, pypi


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
