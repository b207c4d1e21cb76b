"""The exponential of 0004-s390x-exponential.patch, computed with its own constants in rounded Python floats."""

from __future__ import annotations

import math
import re
import struct

import pytest

from layout import ROOT

PATCH = ROOT / "patches" / "0004-s390x-exponential.patch"
ROUNDOFF = 2.0**-24
CONSTANT = re.compile(r"^\+.* (\w+) = vec_splats\((-?[0-9a-fx.p+-]+)f\);", re.MULTILINE)


def single(value: float) -> float:
    """Round to float32; what is beyond its range becomes infinite."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def constants() -> dict[str, float]:
    found = {
        name: float.fromhex(text) if "x" in text else float(text) for name, text in CONSTANT.findall(PATCH.read_text())
    }
    assert {single(value) for value in found.values()} >= set(found.values()) - {found["log2e"]}
    return {name: single(value) for name, value in found.items()}


C = constants()


def exponential(x: float) -> float:
    """Return what the patched vectors compute; a product and a sum are rounded together, as vec_madd does."""
    limited = min(max(x, C["min_x"]), C["max_x"])
    k = float(round(single(limited * C["log2e"])))
    r = single(k * C["ln2_hi"] + limited)
    r = single(k * C["ln2_lo"] + r)
    q = C["q4"]
    for name in ("q3", "q2", "q1", "q0"):
        q = single(q * r + C[name])
    poly = single(single(q * single(r * r) + r) + C["one"])
    half = int(k) >> 1
    return single(single(poly * 2.0**half) * 2.0 ** (int(k) - half))


def test_its_relative_error_is_below_two_roundings() -> None:
    arguments = [single(-87.0 + step * 175.7 / 20011) for step in range(20011)]
    worst = max(abs(exponential(x) / math.exp(x) - 1) for x in arguments)
    assert worst < 2 * ROUNDOFF


def test_subnormal_results_are_the_nearest_or_next_to_it() -> None:
    unit = 2.0**-149
    assert all(abs(exponential(x) - math.exp(x)) <= unit for x in (-87.5, -90.0, -95.25, -100.0, -103.25))


@pytest.mark.parametrize(
    ("x", "result"),
    [(0.0, 1.0), (-0.0, 1.0), (-math.inf, 0.0), (-1e30, 0.0), (-104.0, 0.0), (math.inf, math.inf), (88.75, math.inf)],
)
def test_its_limits(x: float, result: float) -> None:
    assert exponential(x) == result
