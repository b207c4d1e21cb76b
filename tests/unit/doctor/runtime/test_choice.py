"""Which library is loaded, on machines that are changed so that it is another one, or none."""

from __future__ import annotations

import pytest

from cpuwheels.doctor.runtime.choice import choose
from cpuwheels.toolchain.amx import Amx, Palette
from runtime_cases import ARM, X86, Z, detail, machine, report, statuses

FULL = Palette(tiles=8, rows=16, bytes_per_row=64)


def lacking(name, *features, **probe):
    whole = machine(name)
    cpu = whole.probe.cpu.model_copy(update={"features": whole.probe.cpu.features - set(features)})
    return machine(name, cpu=cpu, **probe)


def with_amx(amx):
    whole = machine("virtual-machine")
    return machine("virtual-machine", cpu=whole.probe.cpu.model_copy(update={"amx": amx}))


@pytest.mark.parametrize(
    ("features", "library"), [((), "_C"), (("avx512_bf16",), "_C_AVX512"), (("avx512_bf16", "avx512vl"), "_C_AVX2")]
)
def test_x86_is_asked_as_vllm_asks(features, library):
    found = choose(lacking("virtual-machine", *features), X86)
    assert (found.library, found.fault) == (library, "")


def test_what_is_missing_for_a_better_one_is_listed():
    found = choose(machine("laptop-avx2"), X86)
    assert [(one.name, "avx512f" in one.missing, "avx512_bf16" in one.missing) for one in found.better] == [
        ("_C", True, True),
        ("_C_AVX512", True, False),
    ]


def test_a_cpu_without_avx2_dies():
    found = report(lacking("laptop-avx2", "avx2"))
    assert statuses(found)["library"] == "fail"
    assert "no avx2: an illegal instruction" in detail(found, "library")


def test_features_count_as_usable_not_as_announced():
    held = lacking("virtual-machine", "avx512f", "avx512vl", "avx512bw", "avx512dq", "avx512_bf16", "avx512_vnni")
    assert "avx512f" in held.announced
    assert choose(held, X86).library == "_C_AVX2"
    assert "announced but not usable: avx512_bf16, avx512_vnni" in detail(report(held), "processor")


def test_a_library_that_is_not_in_the_package():
    fewer = X86.model_copy(update={"libraries": ("_C",)})
    found = report("laptop-avx2", fewer)
    assert found.verdict == "fails"
    assert "the package does not hold _C_AVX2" in detail(found, "library")


def test_a_z14_is_refused():
    found = report(lacking("z15", "vxe2"))
    assert (found.choice.library, found.verdict) == ("", "fails")
    assert "_C_Z15 needs vxe2" in detail(found, "library")


def test_a_chooser_loads_what_it_is_told_to():
    assert choose(machine("graviton3", environ={"CPUWHEELS_ISA": "neon"}), ARM).library == "_C_NEON"
    refused = choose(machine("graviton2", environ={"CPUWHEELS_ISA": "BF16"}), ARM)
    assert refused.library == ""
    assert refused.fault == "CPUWHEELS_ISA=BF16: _C_BF16 needs bf16, i8mm"


def test_a_package_for_another_machine_loads_nothing():
    found = report("graviton3", X86)
    assert (found.choice.library, statuses(found)["platform"]) == ("", "fail")
    assert "this is Linux on aarch64" in detail(found, "platform")
    assert choose(machine("z15"), Z).library == "_C_Z15"


def test_upstreams_single_library_tells_nothing():
    single = ARM.model_copy(update={"libraries": ("_C",), "chooser": (), "operators": {"_C": frozenset()}})
    assert "does not tell which CPU it needs" in choose(machine("graviton3"), single).reason


@pytest.mark.parametrize(
    ("amx", "ours", "state"),
    [
        (None, True, "unknown"),
        (Amx(enabled=True, permitted=True, palette=FULL), False, "works"),
        (Amx(enabled=True, permitted=True, palette=None), True, "without oneDNN"),
        (Amx(enabled=True, permitted=True, palette=None), False, "dies"),
        (Amx(enabled=True, permitted=False, palette=FULL), True, "dies"),
        (Amx(enabled=False, permitted=False, palette=FULL), True, "dies"),
    ],
)
def test_amx_that_is_announced(amx, ours, state):
    package = X86.model_copy(update={"sees_to_amx": ours})
    assert choose(with_amx(amx), package).amx.state == state


def test_unusable_amx_means_float32_and_a_limit_for_onednn():
    package = X86.model_copy(update={"sees_to_amx": False})
    found = report("virtual-machine-without-palette", package)
    assert statuses(found) == {"AMX": "advice"}
    assert found.settings.dtype == "float32"
    assert "export ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16" in found.paste
    asked = report("virtual-machine-without-palette", package, dtype="bfloat16")
    assert statuses(asked)["data type"] == "fail"
