"""Which library vLLM loads on a CPU, and how it is made to load another one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.verification.onednn_isa import VARIABLE, highest_level

if TYPE_CHECKING:
    from collections.abc import Collection

    from cpuwheels.config.matrix import Target

HOOK = Path(__file__).with_name("resources") / "lesser_cpu"

_QUESTIONS = {
    "_is_avx2_supported": "avx2",
    "_is_avx512_supported": "avx512f",
    "_is_avx512_bf16_supported": "avx512_bf16",
    "_is_vnni_supported": "avx512_vnni",
    "_is_avx512_vnni_supported": "avx512_vnni",
    "_is_amx_tile_supported": "amx_tile",
    "_is_amx_fp16_supported": "amx_fp16",
}
"""torch.cpu's functions, and the feature each asks for (torch/cpu/__init__.py)."""


def best_library(target: Target, features: Collection[str]) -> str:
    """Return the library that vLLM, or the target's chooser, loads on a CPU with these features."""
    return next(each.name for each in target.libraries if set(each.needs) <= set(features))


def lesser_cpu(target: Target, library: str, features: Collection[str]) -> dict[str, str]:
    """Return the environment variables that make vLLM load a library that it would not choose on this CPU.

    torch's own kernels and oneDNN are limited to that CPU's instructions as well, so that the whole server is tested as
    on that CPU, and not only the library.

    Args:
        target: Lists the libraries, the best first.
        library: The one that is wanted.
        features: What this CPU has, as isaprobe names it.
    """
    names = [each.name for each in target.libraries]
    if library == best_library(target, features):
        return {}
    needs = {"avx2", *target.libraries[names.index(library)].needs}
    lacks = [question for question, feature in _QUESTIONS.items() if feature not in needs]
    return {
        "PYTHONPATH": str(HOOK),
        "CPUWHEELS_CPU_LACKS": ",".join(lacks),
        "ATEN_CPU_CAPABILITY": "avx512" if "avx512f" in needs else "avx2",
        VARIABLE: highest_level(needs),
    }
