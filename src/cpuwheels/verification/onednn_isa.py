"""How far oneDNN may go with this CPU's instructions: not to AMX where the description of its tiles is broken.

oneDNN, and torch's products through it, read the description of the tiles from CPUID leaf 0x1D without asking whether
that leaf is there, and rely on what they find. Results of tests with torch 2.13 and bfloat16: SIGILL if another leaf is
answered instead and is all zeros; "could not create a primitive" with a palette without tiles; a loop over a billion
palettes with the data of the leaf for branch records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from cpuwheels.toolchain.native_helpers import CpuFeatures

VARIABLE = "ONEDNN_MAX_CPU_ISA"
OLDER_VARIABLE = "DNNL_MAX_CPU_ISA"
"""Read by oneDNN if the other is not set or empty (``getenv_string_user`` in src/common/utils.cpp)."""

_CORE = frozenset({"avx512f", "avx512bw", "avx512vl", "avx512dq"})
_VNNI = _CORE | {"avx512_vnni"}
_BF16 = _VNNI | {"avx512_bf16"}
_LEVELS: tuple[tuple[str, frozenset[str]], ...] = (
    ("AVX512_CORE_FP16", _BF16 | {"avx512_fp16", "avx2", "avx_vnni"}),
    ("AVX512_CORE_BF16", _BF16),
    ("AVX512_CORE_VNNI", _VNNI),
    ("AVX512_CORE", _CORE),
    ("AVX2_VNNI", frozenset({"avx2", "avx_vnni"})),
    ("AVX2", frozenset({"avx2"})),
    ("SSE41", frozenset()),
)
"""Levels without AMX, highest first, and the features that oneDNN takes each for (``mayiuse`` in
src/cpu/x64/cpu_isa_traits.hpp).

A name that oneDNN does not know sets no limit at all, and AMX stays on: ``init_max_cpu_isa`` in
src/cpu/x64/cpu_isa_traits.cpp begins with all instructions and ignores other names. These are known to oneDNN
3.7.2, to torch 2.13's 3.12 and to what followed; the AVX10 names, which mean the same, are not known to all.
"""

WITHOUT_AMX = frozenset(name for name, _ in _LEVELS) | {"AVX", "AVX2_VNNI_2", "AVX10_1_512", "AVX10_2_512"}
"""All values of `VARIABLE` that keep oneDNN from AMX (oneDNN Developer Guide, CPU Dispatcher Control)."""


@dataclass(frozen=True)
class OnednnLimit:
    """The highest instructions that oneDNN may use.

    Attributes:
        isa: Value of ``ONEDNN_MAX_CPU_ISA``.
        reason: For people, a clause.
        from_user: Whether the environment asked for it.
    """

    isa: str
    reason: str
    from_user: bool

    @property
    def rules_out_amx(self) -> bool:
        """Whether oneDNN keeps from AMX; a name that it does not know, or ``DEFAULT``, leaves it on."""
        return self.isa.upper() in WITHOUT_AMX

    def environment(self) -> dict[str, str]:
        """Return the variables for a process that loads oneDNN."""
        return {VARIABLE: self.isa}


def highest_level(features: Collection[str]) -> str:
    """Return the highest level without AMX that a CPU with some features has.

    Args:
        features: As isaprobe names them.
    """
    return next(name for name, needs in _LEVELS if needs.issubset(features))


def needed_variables(limit: OnednnLimit | None) -> dict[str, str]:
    """Return the variables for a process that loads oneDNN; none without a limit."""
    return limit.environment() if limit else {}


def onednn_limit(cpu: CpuFeatures, environ: Mapping[str, str]) -> OnednnLimit | None:
    """Return how far oneDNN may go, or None if oneDNN finds the right limit itself.

    It finds it where the operating system has not enabled tiles or refuses them, since it asks for permission
    (``amx::is_available`` in src/cpu/x64/cpu_isa_traits.cpp).

    Args:
        cpu: This machine's processor.
        environ: The user's environment; a limit in it is passed on as it is, whatever the processor.
    """
    for name in (VARIABLE, OLDER_VARIABLE):
        if value := environ.get(name):
            return OnednnLimit(value, f"the environment sets {name}", from_user=True)
    amx = cpu.amx
    if amx is None or not (amx.enabled and amx.permitted and amx.palette_fault):
        return None
    return OnednnLimit(highest_level(cpu.features), f"this CPU announces AMX, but {amx.palette_fault}", from_user=False)
