"""Recorded machines, and the packages and models that the doctor of a server is tested with on them."""

from __future__ import annotations

from typing import Any

from cpuwheels.doctor.runtime.chooser_table import Choosable
from cpuwheels.doctor.runtime.machine import Machine
from cpuwheels.doctor.runtime.model import Model
from cpuwheels.doctor.runtime.package import FP8, SHARED_MEMORY, WNA16, Installed, Package
from cpuwheels.doctor.runtime.recording import read_record
from cpuwheels.doctor.runtime.report import Report, make_report
from cpuwheels.doctor.runtime.settings import Wish
from layout import ROOT

MACHINES = ROOT / "tests" / "data" / "machines"
NAMES = sorted(path.stem for path in MACHINES.glob("*.txt"))

VARIABLES = frozenset(
    {"CPU_VISIBLE_MEMORY_NODES", "VLLM_CPU_KVCACHE_SPACE", "VLLM_CPU_NUM_OF_RESERVED_CPU", "VLLM_CPU_OMP_THREADS_BIND"}
)
HEADS = frozenset({32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512})

_COMMON: dict[str, Any] = {
    "requires_python": "<3.15,>=3.11",
    "extras": frozenset({"zen"}),
    "variables": VARIABLES,
    "head_sizes": HEADS,
    "allocator": True,
    "intel_openmp": False,
    "sees_to_amx": False,
    "rounds_bfloat16": False,
}
X86 = Package(
    name="vllm-0.32.0+cpu-cp38-abi3-manylinux_2_27_x86_64.whl",
    version="0.32.0+cpu",
    platforms=("manylinux_2_27_x86_64",),
    libraries=("_C", "_C_AVX2", "_C_AVX512"),
    operators={
        "_C": frozenset({WNA16, FP8, SHARED_MEMORY}),
        "_C_AVX512": frozenset({WNA16, SHARED_MEMORY}),
        "_C_AVX2": frozenset({WNA16, SHARED_MEMORY}),
    },
    chooser=(),
    picks=True,
    **{**_COMMON, "sees_to_amx": True, "rounds_bfloat16": True},
)
UPSTREAMS_X86 = X86.model_copy(
    update={"operators": {**X86.operators, "_C_AVX2": frozenset[str]()}, "sees_to_amx": False, "rounds_bfloat16": False}
)
ARM = Package(
    name="vllm-0.33.0+cpu-cp38-abi3-manylinux_2_28_aarch64.whl",
    version="0.33.0+cpu",
    platforms=("manylinux_2_28_aarch64",),
    libraries=("_C_BF16", "_C_NEON"),
    operators={"_C_BF16": frozenset({SHARED_MEMORY}), "_C_NEON": frozenset({SHARED_MEMORY})},
    chooser=(
        Choosable(name="_C_BF16", needs=("asimd", "asimddp", "asimdhp", "bf16", "i8mm")),
        Choosable(name="_C_NEON", needs=("asimd", "asimddp", "asimdhp")),
    ),
    picks=True,
    **_COMMON,
)
Z = Package(
    name="vllm-0.33.0+cpu-cp38-abi3-manylinux_2_34_s390x.whl",
    version="0.33.0+cpu",
    platforms=("manylinux_2_34_s390x",),
    libraries=("_C_Z15",),
    operators={"_C_Z15": frozenset({WNA16})},
    chooser=(Choosable(name="_C_Z15", needs=("vx", "vxe", "vxe2")),),
    picks=True,
    **_COMMON,
)
MAC = Package(
    name="vllm-0.33.0-cp38-abi3-macosx_14_0_arm64.whl",
    version="0.33.0",
    platforms=("macosx_14_0_arm64",),
    libraries=("_C",),
    operators={"_C": frozenset()},
    chooser=(),
    picks=True,
    **{**_COMMON, "allocator": False},
)
INSTALLED = Installed(python="3.11", torch="2.13.0+cpu", openmp=("libgomp-a.so.1",), iomp="", zentorch=False)
PACKAGES = {"x86_64": X86, "aarch64": ARM, "s390x": Z, "arm64": MAC}

QWEN3 = Model(
    name="Qwen3-0.6B",
    model_type="qwen3",
    layers=28,
    heads=16,
    kv_heads=8,
    head_size=128,
    mla=False,
    value_size=128,
    sparse=False,
    window=None,
    window_layers=0,
    state_layers=0,
    length=40960,
    dtype="bfloat16",
    quantisation="",
    weight_bytes=1_192_135_096,
    weights_measured=True,
)
LATENT = QWEN3.model_copy(
    update={"model_type": "deepseek_v2", "mla": True, "kv_heads": 1, "head_size": 576, "value_size": 512}
)


def machine(name: str, **probe: Any) -> Machine:
    """Return a recorded machine, with changes to what was asked of it."""
    found = read_record(MACHINES / f"{name}.txt")
    return found.model_copy(update={"probe": found.probe.model_copy(update=probe)})


def report(on: str | Machine, package: Package | None = None, model: Model | None = QWEN3, **wish: Any) -> Report:
    """Return the report of a machine, with the package for its kind unless another one is given."""
    place = machine(on) if isinstance(on, str) else on
    return make_report(place, package or PACKAGES[place.architecture], model, Wish(**wish))


def statuses(found: Report) -> dict[str, str]:
    """Return what is advised and what will fail, by name."""
    return {finding.name: finding.status for finding in found.findings if finding.status in {"advice", "fail"}}


def detail(found: Report, name: str) -> str:
    """Return what was found under a name, with the next step."""
    (finding,) = (finding for finding in found.findings if finding.name == name)
    return f"{finding.detail} -> {finding.next_step}"


def variables(found: Report) -> dict[str, str]:
    """Return the variables to paste."""
    return {setting.name: setting.value for setting in found.settings.variables}


def options(found: Report) -> dict[str, str]:
    """Return the options to paste."""
    return {setting.name: setting.value for setting in found.settings.options}
