"""How far oneDNN may go: processors and environments in, limits out."""

from __future__ import annotations

import ast

import pytest

from cpuwheels.toolchain.amx import Amx, Palette
from cpuwheels.toolchain.native_helpers import CpuFeatures
from cpuwheels.verification.onednn_isa import WITHOUT_AMX, OnednnLimit, onednn_limit
from layout import TESTS

SKYLAKE = {"avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512dq"}
CASCADE_LAKE = SKYLAKE | {"avx512_vnni"}
COOPER_LAKE = CASCADE_LAKE | {"avx512_bf16"}
SAPPHIRE_RAPIDS = COOPER_LAKE | {"avx512_fp16", "avx_vnni", "amx_tile", "amx_bf16", "amx_int8"}

WHOLE = Palette(tiles=8, rows=16, bytes_per_row=64)
MISSING = "CPUID leaf 0x1D, which describes the tiles, is missing or has no palette"


def amx(palette: Palette | None, *, enabled: bool = True, permitted: bool = True) -> Amx:
    return Amx(enabled=enabled, permitted=permitted, palette=palette)


def cpu(features: set[str], found: Amx | None) -> CpuFeatures:
    return CpuFeatures(
        architecture="x86_64", vendor="V", model="M", features=frozenset(features), xcr0="0x7", amx=found
    )


JUDGED = [
    (amx(WHOLE), ""),
    (amx(Palette(tiles=16, rows=32, bytes_per_row=128)), ""),
    (amx(None), MISSING),
    (amx(Palette(tiles=0, rows=0, bytes_per_row=0)), "its palette has 0 tiles"),
    (amx(Palette(tiles=7, rows=16, bytes_per_row=64)), "its palette has 7 tiles"),
    (amx(Palette(tiles=8, rows=0, bytes_per_row=64)), "its palette has 0 rows in a tile"),
    (amx(Palette(tiles=8, rows=16, bytes_per_row=32)), "its palette has 32 bytes in a row"),
]


@pytest.mark.parametrize(("found", "why_not"), JUDGED)
def test_amx(found: Amx, why_not: str) -> None:
    assert (found.usable_by_onednn, found.why_not, found.palette_fault) == (not why_not, why_not, why_not)


@pytest.mark.parametrize("palette", [WHOLE, None])
@pytest.mark.parametrize(
    ("enabled", "permitted", "why_not"),
    [
        (False, False, "the operating system has not enabled tile state"),
        (True, False, "the operating system refuses tile data to programs"),
    ],
)
def test_amx_that_the_system_withholds(
    *, palette: Palette | None, enabled: bool, permitted: bool, why_not: str
) -> None:
    found = amx(palette, enabled=enabled, permitted=permitted)
    assert (found.usable_by_onednn, found.why_not) == (False, why_not)
    # oneDNN finds that out itself, whatever the palette.
    assert onednn_limit(cpu(SAPPHIRE_RAPIDS, found), {}) is None


@pytest.mark.parametrize(("found", "why_not"), JUDGED)
def test_a_broken_palette_holds_onednn_back(found: Amx, why_not: str) -> None:
    limit = onednn_limit(cpu(SAPPHIRE_RAPIDS, found), {})
    if not why_not:
        assert limit is None
        return
    assert limit == OnednnLimit("AVX512_CORE_FP16", f"this CPU announces AMX, but {why_not}", from_user=False)
    assert limit.environment() == {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_FP16"}


def test_without_amx_there_is_no_limit() -> None:
    assert onednn_limit(cpu(COOPER_LAKE, None), {}) is None


@pytest.mark.parametrize(
    ("features", "isa"),
    [
        (SAPPHIRE_RAPIDS, "AVX512_CORE_FP16"),
        (SAPPHIRE_RAPIDS - {"avx512_fp16"}, "AVX512_CORE_BF16"),
        # oneDNN takes AVX-512 FP16 only together with the VNNI of AVX2.
        (SAPPHIRE_RAPIDS - {"avx_vnni"}, "AVX512_CORE_BF16"),
        (COOPER_LAKE, "AVX512_CORE_BF16"),
        (CASCADE_LAKE | {"avx512_fp16", "avx_vnni"}, "AVX512_CORE_VNNI"),
        (CASCADE_LAKE, "AVX512_CORE_VNNI"),
        (SKYLAKE | {"avx512_bf16"}, "AVX512_CORE"),
        (SKYLAKE | {"avx_vnni"}, "AVX512_CORE"),
        ((SKYLAKE | {"avx_vnni"}) - {"avx512dq"}, "AVX2_VNNI"),
        ({"avx2", "avx_vnni"}, "AVX2_VNNI"),
        ({"avx2"}, "AVX2"),
        ({"avx_vnni"}, "SSE41"),
        (set(), "SSE41"),
    ],
)
def test_the_highest_level_that_the_cpu_has(features: set[str], isa: str) -> None:
    limit = onednn_limit(cpu(features, amx(None)), {})
    assert limit is not None
    assert limit.isa == isa


@pytest.mark.parametrize("found", [None, amx(WHOLE), amx(None), amx(None, permitted=False)])
@pytest.mark.parametrize(
    ("environ", "isa", "name"),
    [
        ({"ONEDNN_MAX_CPU_ISA": "avx2"}, "avx2", "ONEDNN_MAX_CPU_ISA"),
        ({"DNNL_MAX_CPU_ISA": "DEFAULT"}, "DEFAULT", "DNNL_MAX_CPU_ISA"),
        ({"ONEDNN_MAX_CPU_ISA": "AVX2", "DNNL_MAX_CPU_ISA": "SSE41"}, "AVX2", "ONEDNN_MAX_CPU_ISA"),
        ({"ONEDNN_MAX_CPU_ISA": "", "DNNL_MAX_CPU_ISA": "SSE41"}, "SSE41", "DNNL_MAX_CPU_ISA"),
    ],
)
def test_the_users_own_limit_is_passed_on(found: Amx | None, environ: dict[str, str], isa: str, name: str) -> None:
    limit = onednn_limit(cpu(SAPPHIRE_RAPIDS, found), environ)
    assert limit == OnednnLimit(isa, f"the environment sets {name}", from_user=True)
    assert limit.environment() == {"ONEDNN_MAX_CPU_ISA": isa}


def test_an_empty_variable_is_none() -> None:
    environ = {"ONEDNN_MAX_CPU_ISA": "", "DNNL_MAX_CPU_ISA": ""}
    assert onednn_limit(cpu(SAPPHIRE_RAPIDS, amx(WHOLE)), environ) is None
    limit = onednn_limit(cpu(SAPPHIRE_RAPIDS, amx(None)), environ)
    assert limit is not None
    assert not limit.from_user


@pytest.mark.parametrize(
    ("isa", "ruled_out"),
    [
        *((isa, True) for isa in ("AVX512_CORE_FP16", "avx2", "AVX10_1_512", "SSE41")),
        *((isa, False) for isa in ("DEFAULT", "AVX512_CORE_AMX", "AVX10_1_512_AMX_FP16", "AVX3")),
    ],
)
def test_a_limit_that_onednn_does_not_know_leaves_amx_on(isa: str, ruled_out: bool) -> None:
    assert OnednnLimit(isa, "", from_user=True).rules_out_amx is ruled_out


def test_parity_takes_the_same_limits_for_ones_without_amx() -> None:
    """Its harness runs where cpuwheels is not installed, and names them itself."""
    tree = ast.parse((TESTS / "parity" / "harness" / "cpu.py").read_text())
    named = next(
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_WITHOUT_AMX"
    )
    names = {one.value for one in ast.walk(named) if isinstance(one, ast.Constant)}
    assert names == WITHOUT_AMX
