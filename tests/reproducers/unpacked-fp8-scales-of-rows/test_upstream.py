# tests/kernels/quantization/test_cpu_fp8_scaled_mm.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()
if not hasattr(torch.ops._C, "fp8_scaled_mm_with_quant"):
    pytest.skip("fp8_scaled_mm_with_quant is not in this build", allow_module_level=True)


def test_unpacked_scales_of_rows() -> None:
    x = torch.arange(1.0, 33)[:, None].repeat(1, 32)
    weight = torch.ones(32, 32).to(torch.float8_e4m3fn)
    out = torch.ops._C.fp8_scaled_mm_with_quant(x, None, True, weight, torch.ones(32, 1), None, torch.float32)
    torch.testing.assert_close(out, x @ weight.float().T)
