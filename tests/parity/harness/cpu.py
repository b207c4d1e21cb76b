"""What the CPU that a run happens on has, and what oneDNN uses of it."""

from __future__ import annotations

import os
from collections.abc import Iterable

import torch

ONEDNN = "onednn:"
"""Put in front of an AMX feature: a CPU has it, and oneDNN may use it."""

_WITHOUT_AMX = {
    *("SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2", "AVX512_CORE", "AVX512_CORE_VNNI", "AVX512_CORE_BF16"),
    *("AVX512_CORE_FP16", "AVX10_1_512", "AVX10_2_512"),
}
"""Values of ``ONEDNN_MAX_CPU_ISA`` (oneDNN Developer Guide, CPU Dispatcher Control) without AMX; others set none."""


def has_any(features: Iterable[str]) -> bool:
    """Return whether this CPU has any of some features.

    Args:
        features: PyTorch's names; `ONEDNN` in front of one that begins with ``amx`` asks for oneDNN's use of it, too.
    """
    return any(_has(feature) for feature in features)


def _has(feature: str) -> bool:
    has = bool(torch.cpu.get_capabilities().get(feature.removeprefix(ONEDNN)))
    return has and (not feature.startswith(ONEDNN) or _onednn_uses_amx())


def _onednn_uses_amx() -> bool:
    """Return whether oneDNN is not limited to less, and the system lets this process use tiles."""
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA") or os.environ.get("DNNL_MAX_CPU_ISA") or ""
    return limit.upper() not in _WITHOUT_AMX and bool(torch.cpu._init_amx())
