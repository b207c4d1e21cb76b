from __future__ import annotations

import json

import pytest

from cpuwheels.errors import ToolchainError
from cpuwheels.toolchain.policy import Definition, Policy, lowered, policy_text, read_policy

POLICIES = json.dumps([
    {"name": "linux", "aliases": [], "symbol_versions": {}},
    {
        "name": "manylinux_2_17",
        "aliases": ["manylinux2014"],
        "symbol_versions": {
            "x86_64": {"GLIBC": ["2.2.5", "2.9", "2.17"], "GLIBCXX": ["3.4", "3.4.19"], "CXXABI": ["1.3", "TM_1"]},
            "s390x": {"GLIBC": ["2.2"], "GLIBCXX": ["3.4", "LDBL_3.4"]},
        },
    },
])  # fmt: skip


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
    assert read_policy(POLICIES, floor, machine).forbids(node) == forbidden


@pytest.mark.parametrize(
    ("floor", "machine"),
    [("manylinux_9_99", "x86_64"), ("manylinux_2_17", "riscv64"), ("linux", "x86_64")],
)
def test_an_unknown_floor_is_named(floor: str, machine: str) -> None:
    with pytest.raises(ToolchainError, match=f"no policy {floor} for {machine}"):
        read_policy(POLICIES, floor, machine)


def test_the_newest_c_library_is_by_number_not_by_text() -> None:
    assert read_policy(POLICIES, "manylinux_2_17", "x86_64").glibc == (2, 17)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "s390x"])
def test_auditwheels_own_table_is_understood(machine: str) -> None:
    policy = read_policy(policy_text(), "manylinux_2_28", machine)
    assert policy.glibc == (2, 28)
    assert not policy.forbids("GLIBCXX_3.4")
    assert policy.forbids("GLIBCXX_3.4.99")


POLICY = Policy("floor", {"GLIBC": frozenset({"2.2.5", "2.9", "2.14", "2.28"})})


@pytest.mark.parametrize(
    ("definitions", "visible"),
    [
        (["pow GLIBC_2.29 current", "pow GLIBC_2.2.5 old"], ["pow GLIBC_2.2.5"]),
        (["f GLIBC_2.31 current", "f GLIBC_2.9 old", "f GLIBC_2.14 old", "f GLIBC_2.30 old"], ["f GLIBC_2.14"]),
        (["memcpy GLIBC_2.14 current", "memcpy GLIBC_2.2.5 old"], ["memcpy GLIBC_2.14"]),
        (["gettid GLIBC_2.30 current"], []),
        (["retired GLIBC_2.2.5 old"], []),
        (["internal GLIBC_PRIVATE current"], []),
        (["numa_available libnuma_1.1 current"], ["numa_available libnuma_1.1"]),
    ],
)  # fmt: skip
def test_each_symbol_in_its_newest_allowed_version(definitions: list[str], visible: list[str]) -> None:
    parsed = []
    for text in definitions:
        name, node, age = text.split()
        parsed.append(Definition(name, node, age == "old"))
    hidden = lowered(parsed, POLICY)
    pairs = zip(parsed, hidden, strict=True)
    assert [f"{symbol.name} {symbol.node}" for symbol, gone in pairs if not gone] == visible
