"""The commands that tell whether a wheel has a planted fault; they need torch and the wheel alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bisectbench.history import Fault

_KERNEL = """\
import pathlib, sys, torch
site = next(path for path in map(pathlib.Path, sys.path) if (path / "vllm" / "_C_AVX2.abi3.so").exists())
torch.ops.load_library(str(site / "vllm" / "_C_AVX2.abi3.so"))
operators = torch.ops._C if hasattr(torch.ops._C, "rms_norm") else torch.ops._C_AVX2
x = torch.randn(4, 256, generator=torch.Generator().manual_seed(1))
found = torch.empty_like(x)
operators.rms_norm(found, x, torch.ones(256), 1e-6)
wanted = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)
sys.exit(not torch.allclose(found, wanted, atol=1e-4))
"""

_PYTHON = """\
import importlib.util, pathlib, sys
site = next(path for path in map(pathlib.Path, sys.path) if (path / "vllm" / "utils" / "math_utils.py").exists())
spec = importlib.util.spec_from_file_location("math_utils", site / "vllm" / "utils" / "math_utils.py")
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
sys.exit(module.cdiv(7, 2) != 4)
"""

SCRIPTS: Mapping[Fault, str] = {"kernel": _KERNEL, "python": _PYTHON}
"""RMS norm against its formula (https://arxiv.org/abs/1910.07467), and a division that is rounded up."""
