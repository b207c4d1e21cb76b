# tests/kernels/quantization/test_cpu_fp8_scaled_mm.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()
if not hasattr(torch.ops._C, "fp8_scaled_mm_cpu"):
    pytest.skip("fp8_scaled_mm_cpu is not in this build", allow_module_level=True)


@pytest.mark.parametrize("rows", [1, 6])
@pytest.mark.parametrize("code", range(8))
def test_fp8_zero_and_subnormal_weights(rows: int, code: int) -> None:
    weight = torch.full((32, 128), code, dtype=torch.uint8).view(torch.float8_e4m3fn)
    x = torch.ones(rows, 128, dtype=torch.bfloat16)
    packed = torch.ops._C.convert_weight_packed(weight)
    out = torch.ops._C.fp8_scaled_mm_cpu(x, packed, torch.ones(1, 1), [32, 128], None, torch.bfloat16, True)
    torch.testing.assert_close(out, torch.full_like(out, 128 * code * 2.0**-9))
