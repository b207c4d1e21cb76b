from __future__ import annotations

import pytest

from cpuwheels.config.debian_lock import DebianLock, DebianPackage, glibc_of, python_of
from cpuwheels.core.errors import MatrixError


def lock(*packages: tuple[str, str]) -> DebianLock:
    made = (DebianPackage(name=name, version=version, path=name, size=1, sha256="a" * 64) for name, version in packages)
    return DebianLock(suites={}, architecture="s390x", packages=tuple(made))


def test_the_c_library_and_python_of_a_root_are_known_before_it_is_fetched() -> None:
    root = lock(("python3-minimal", "3.13.9-3"), ("libc6", "2.36-9+deb12u14"), ("python3.14-minimal", "3.14.0-5"))
    assert (glibc_of(root), python_of(root)) == (36, "3.14")


def test_a_root_without_them_is_told() -> None:
    with pytest.raises(MatrixError, match="the root has no libc6"):
        glibc_of(lock(("dash", "1")))
    with pytest.raises(MatrixError, match="the root has no python3"):
        python_of(lock(("python3-minimal", "3.13")))
