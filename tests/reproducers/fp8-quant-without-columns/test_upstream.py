# tests/kernels/quantization/test_cpu_fp8_quant.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


@pytest.mark.parametrize("rows", [0, 2])
def test_fp8_quant_no_columns(rows: int) -> None:
    x, out = torch.empty(rows, 0), torch.empty(rows, 0, dtype=torch.float8_e4m3fn)
    torch.ops._C.static_scaled_fp8_quant(out, x, torch.ones(1), None)
    scales = torch.ones(rows, 1)
    torch.ops._C.dynamic_per_token_scaled_fp8_quant(out, x, scales, None)
    torch.testing.assert_close(scales, torch.full((rows, 1), 1 / (448 * 512)))
