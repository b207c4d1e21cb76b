"""What isaprobe makes of processors that are not at hand: its logic, with CPUID from a table."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from layout import TESTS

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="CPUID is x86's")

Row = tuple[int, int | str, int, int, int, int]

AMX_BITS = 1 << 22 | 1 << 24 | 1 << 25
"""CPUID.7.0:EDX of amx_bf16, amx_tile and amx_int8."""

AVX512 = {"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni", "avx512_fp16", "avx512_bf16"}
AMX = {"amx_tile", "amx_bf16", "amx_int8"}


def leaf_7(edx: int) -> list[Row]:
    """AVX2 and AVX-512 as Sapphire Rapids has them: F, DQ, BW, VL, VNNI, FP16 and, in subleaf 1, BF16."""
    ebx = 1 << 5 | 1 << 16 | 1 << 17 | 1 << 30 | 1 << 31
    return [(7, 0, 1, ebx, 1 << 11, edx | 1 << 23), (7, 1, 1 << 5, 0, 0, 0)]


def intel(highest: int, *more: Row, edx: int = AMX_BITS, osxsave: int = 1) -> list[Row]:
    """An Intel processor with some highest basic leaf, which answers for every leaf beyond it."""
    return [
        (0, "any", highest, 0x756E6547, 0x6C65746E, 0x49656E69),
        (1, "any", 0x806F8, 0, osxsave << 27 | 1 << 28, 0),
        *leaf_7(edx),
        # As Sapphire Rapids answers: last branch records. Read as a palette it is one without tiles.
        (0x1C, "any", 0x4000000B, 0x7, 0x7, 0),
        *more,
        (0x80000000, "any", 0x80000008, 0, 0, 0),
    ]


def palettes(tiles: int, rows: int, bytes_per_row: int, highest: int = 1) -> list[Row]:
    """Leaf 0x1D, with the total bytes of a palette and of a tile in EAX of subleaf 1."""
    return [(0x1D, 0, highest, 0, 0, 0), (0x1D, 1, 1024 << 16 | 8192, tiles << 16 | bytes_per_row, rows, 0)]


SAPPHIRE_RAPIDS = intel(0x20, *palettes(8, 16, 64))
AMD = [
    (0, "any", 0x10, 0x68747541, 0x444D4163, 0x69746E65),
    (1, "any", 0xA10F11, 0, 1 << 27 | 1 << 28, 0),
    *leaf_7(0),
    (0x10, "any", 1, 2, 3, 4),
    (0x80000000, "any", 0x80000028, 0, 0, 0),
]
ALL_STATE, NO_TILES, NO_TILE_DATA = 0x600E7, 0xE7, 0x200E7
GOOD = {"tiles": 8, "rows": 16, "bytes_per_row": 64}

Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def program(c_compiler: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    tests = TESTS
    csrc, program = tests.parent / "csrc" / "isaprobe", tmp_path_factory.mktemp("tables") / "isaprobe"
    sources = [*sorted(csrc.glob("*.c")), tests / "helpers" / "cpuid_table.c"]
    sources.remove(csrc / "processor.c")
    options = ["-std=c17", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{csrc}", "-o", program]
    subprocess.run([c_compiler, *options, *sources], check=True)
    return program


@pytest.fixture
def ask(program: Path, tmp_path: Path) -> Ask:
    def ask(rows: Iterable[Row], xcr0: int = ALL_STATE, *, granted: bool = True) -> dict[str, Any]:
        lines = [" ".join(part if isinstance(part, str) else f"{part:x}" for part in row) for row in rows]
        (tmp_path / "table").write_text("\n".join([*lines, f"xcr0 {xcr0:x}", f"tiles {granted:d}", ""]))
        env = {**os.environ, "CPUID_TABLE": str(tmp_path / "table")}
        done = subprocess.run([program], env=env, check=True, capture_output=True, text=True)
        return json.loads(done.stdout)

    return ask


@pytest.mark.parametrize(
    ("rows", "palette"),
    [
        (SAPPHIRE_RAPIDS, GOOD),
        # Leaf 0x1D is missing; the processor answers it with the data of leaf 0x1C.
        (intel(0x1C), None),
        (intel(0x20, (0x1D, 0, 0, 0, 0, 0)), None),
        (intel(0x20, *palettes(8, 16, 64, highest=0)), None),
        (intel(0x20, *palettes(0, 0, 0)), {"tiles": 0, "rows": 0, "bytes_per_row": 0}),
        (intel(0x20, *palettes(0, 16, 64)), GOOD | {"tiles": 0}),
        (intel(0x20, *palettes(8, 0, 64)), GOOD | {"rows": 0}),
        (intel(0x20, *palettes(8, 16, 64, highest=2)), GOOD),
        # The highest leaf of all: nothing after it may be asked for.
        (intel(0x1D, *palettes(8, 16, 64)), GOOD),
    ],
)
def test_palette(ask: Ask, rows: list[Row], palette: dict[str, int] | None) -> None:
    answer = ask(rows)
    assert answer["amx"] == {"enabled": True, "permitted": True, "palette": palette}
    # The instructions can be used, whatever the palette says.
    assert set(answer["features"]) == AVX512 | AMX | {"avx", "avx2"}


@pytest.mark.parametrize(("xcr0"), [NO_TILES, NO_TILE_DATA])
def test_state_that_is_not_enabled(ask: Ask, xcr0: int) -> None:
    answer = ask(SAPPHIRE_RAPIDS, xcr0)
    assert answer["amx"] == {"enabled": False, "permitted": False, "palette": GOOD}
    assert set(answer["features"]) == AVX512 | {"avx", "avx2"}
    assert answer["xcr0"] == hex(xcr0)


def test_permission_that_is_refused(ask: Ask) -> None:
    answer = ask(SAPPHIRE_RAPIDS, granted=False)
    assert answer["amx"] == {"enabled": True, "permitted": False, "palette": GOOD}
    assert set(answer["features"]) == AVX512 | {"avx", "avx2"}


def test_xcr0_that_cannot_be_read(ask: Ask) -> None:
    answer = ask(intel(0x20, *palettes(8, 16, 64), osxsave=0))
    assert answer["amx"] == {"enabled": False, "permitted": False, "palette": GOOD}
    assert (answer["xcr0"], answer["features"]) == (None, [])


@pytest.mark.parametrize("rows", [AMD, intel(0x20, edx=0), intel(0x20, *palettes(8, 16, 64), edx=0)])
def test_amx_that_is_not_announced(ask: Ask, rows: list[Row]) -> None:
    answer = ask(rows)
    assert answer["amx"] is None
    assert set(answer["features"]) == AVX512 | {"avx", "avx2"}


@pytest.mark.parametrize(
    ("version", "announced", "state", "there"),
    [
        (2, 1, ALL_STATE, True),
        (3, 1, ALL_STATE, True),
        (1, 1, ALL_STATE, False),
        (2, 0, ALL_STATE, False),
        (2, 1, 0x7, False),
    ],
)
def test_avx10_has_versions(ask: Ask, version: int, announced: int, state: int, there: bool) -> None:
    leaf_7 = (7, 1, 1 << 5, 0, 0, announced << 19)
    rows = [leaf_7 if row[:2] == (7, 1) else row for row in intel(0x24, *palettes(8, 16, 64))]
    # Bits 16 to 18 tell the lengths of vectors.
    answer = ask([*rows, (0x24, 0, 1, 7 << 16 | version, 0, 0)], xcr0=state)
    assert ("avx10_2" in answer["features"]) is there


def test_a_leaf_beyond_the_highest_has_no_features(ask: Ask) -> None:
    # Leaf 0x1E tells AMX-FP8 in subleaf 1; here the bit is the highest leaf's own.
    rows = [row for row in intel(0x1C) if row[0] != 0x1C]
    assert "amx_fp8" not in ask([*rows, (0x1C, "any", 1 << 4, 0, 0, 0)])["features"]
    assert "amx_fp8" in ask(intel(0x1E, *palettes(8, 16, 64), (0x1E, 1, 1 << 4, 0, 0, 0)))["features"]
