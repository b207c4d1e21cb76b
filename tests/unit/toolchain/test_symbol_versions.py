from __future__ import annotations

import pytest

from cpuwheels.config.platform_policy import Policy
from cpuwheels.toolchain.symbol_versions import Definition, lowered

POLICY = Policy("floor", 0, {"GLIBC": frozenset({"2.2.5", "2.9", "2.14", "2.28"})}, frozenset())


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
)
def test_each_symbol_in_its_newest_allowed_version(definitions: list[str], visible: list[str]) -> None:
    parsed = []
    for text in definitions:
        name, node, age = text.split()
        parsed.append(Definition(name, node, age == "old"))
    hidden = lowered(parsed, POLICY)
    pairs = zip(parsed, hidden, strict=True)
    assert [f"{symbol.name} {symbol.node}" for symbol, gone in pairs if not gone] == visible
