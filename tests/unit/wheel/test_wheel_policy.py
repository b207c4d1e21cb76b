from __future__ import annotations

import pytest

from cpuwheels.errors import AuditError
from cpuwheels.wheel.elf import NeededVersion
from cpuwheels.wheel.policy import load_policy


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
    assert load_policy("manylinux_2_28", "x86_64").allows(NeededVersion("lib", version, ())) is allowed


def test_libraries_and_names() -> None:
    policy = load_policy("manylinux2014", "x86_64")
    assert policy.name == "manylinux_2_17_x86_64"
    assert policy.has("libc.so.6")
    assert policy.has("ld-linux-x86-64.so.2")
    assert not policy.has("libnuma.so.1")
    assert policy.priority > load_policy("manylinux_2_28", "x86_64").priority


@pytest.mark.parametrize(("floor", "machine"), [("manylinux_9_9", "x86_64"), ("manylinux_2_28", "vax")])
def test_an_unknown_policy_is_refused(floor: str, machine: str) -> None:
    with pytest.raises(AuditError, match=f"no platform policy {floor} for {machine}"):
        load_policy(floor, machine)
