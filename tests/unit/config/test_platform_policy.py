from __future__ import annotations

import json

import pytest

from cpuwheels.config.platform_policy import load_policy
from cpuwheels.core.errors import MatrixError

POLICIES = json.dumps(
    [
        {"name": "linux", "aliases": [], "symbol_versions": {}},
        {
            "name": "manylinux_2_17",
            "aliases": ["manylinux2014"],
            "priority": 90,
            "lib_whitelist": ["libc.so.6"],
            "symbol_versions": {
                "x86_64": {"GLIBC": ["2.2.5", "2.9", "2.17"], "GLIBCXX": ["3.4", "3.4.19"], "CXXABI": ["1.3", "TM_1"]},
                "s390x": {"GLIBC": ["2.2"], "GLIBCXX": ["3.4", "LDBL_3.4"]},
            },
        },
    ]
)


@pytest.mark.parametrize(
    ("floor", "machine", "node", "forbidden"),
    [
        ("manylinux_2_17", "x86_64", "GLIBC_2.17", False),
        ("manylinux_2_17", "x86_64", "GLIBC_2.18", True),
        ("manylinux_2_17", "x86_64", "GLIBC_PRIVATE", True),
        ("manylinux_2_17", "x86_64", "CXXABI_TM_1", False),
        ("manylinux_2_17", "x86_64", "GLIBCXX_LDBL_3.4", True),
        ("manylinux2014", "s390x", "GLIBCXX_LDBL_3.4", False),
        ("manylinux_2_17", "x86_64", "libnuma_1.1", False),
        ("manylinux_2_17", "x86_64", "GOMP_4.0", False),
    ],
)
def test_forbids(floor: str, machine: str, node: str, forbidden: bool) -> None:
    assert load_policy(floor, machine, table=POLICIES).forbids(node) == forbidden


@pytest.mark.parametrize(
    ("floor", "machine"), [("manylinux_9_99", "x86_64"), ("manylinux_2_17", "riscv64"), ("linux", "x86_64")]
)
def test_an_unknown_floor_is_named(floor: str, machine: str) -> None:
    with pytest.raises(MatrixError, match=f"no platform policy {floor} for {machine}"):
        load_policy(floor, machine, table=POLICIES)


def test_the_newest_c_library_is_by_number_not_by_text() -> None:
    assert load_policy("manylinux_2_17", "x86_64", table=POLICIES).glibc == (2, 17)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "s390x"])
def test_auditwheels_own_table_is_understood(machine: str) -> None:
    policy = load_policy("manylinux_2_28", machine)
    assert policy.glibc == (2, 28)
    assert not policy.forbids("GLIBCXX_3.4")
    assert policy.forbids("GLIBCXX_3.4.99")


@pytest.mark.parametrize(
    ("version", "allowed"),
    [
        ("GLIBC_2.28", True),
        ("GLIBC_2.29", False),
        ("GLIBCXX_3.4.24", True),
        ("GLIBCXX_3.4.28", False),
        ("CXXABI_1.3.11", True),
        ("libnuma_1.1", True),
    ],
)
def test_versions_of_manylinux_2_28(version: str, allowed: bool) -> None:
    assert load_policy("manylinux_2_28", "x86_64").forbids(version) is not allowed


def test_libraries_and_names() -> None:
    policy = load_policy("manylinux2014", "x86_64")
    assert policy.name == "manylinux_2_17_x86_64"
    assert policy.has("libc.so.6")
    assert policy.has("ld-linux-x86-64.so.2")
    assert not policy.has("libnuma.so.1")
    assert policy.priority > load_policy("manylinux_2_28", "x86_64").priority
