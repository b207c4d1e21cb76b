# tests/kernels/quantization/test_cpu_fp8_scaled_mm.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()
if not hasattr(torch.ops._C, "fp8_scaled_mm_with_quant"):
    pytest.skip("fp8_scaled_mm_with_quant is not in this build", allow_module_level=True)


@pytest.mark.parametrize("width", [31, 33, 65])
def test_width_of_inputs(width: int) -> None:
    x = torch.ones(1, width, dtype=torch.bfloat16)
    x[:, -1] = 448
    weight = torch.ones(32, width).to(torch.float8_e4m3fn)
    out = torch.ops._C.fp8_scaled_mm_with_quant(x, None, True, weight, torch.ones(32, 1), None, torch.float32)
    torch.testing.assert_close(out, torch.full((1, 32), width - 1 + 448.0))
