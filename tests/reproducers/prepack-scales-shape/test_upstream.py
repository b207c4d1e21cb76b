# tests/kernels/quantization/test_cpu_fp8_scaled_mm.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()
if not hasattr(torch.ops._C, "float8_linear_prepack_cpu"):
    pytest.skip("float8_linear_prepack_cpu is not in this build", allow_module_level=True)


def test_prepack_keeps_scales() -> None:
    weight, scales = torch.zeros(32, 32).to(torch.float8_e4m3fn), torch.ones(32)
    torch.ops._C.float8_linear_prepack_cpu(weight, scales)
    assert scales.shape == (32,)
