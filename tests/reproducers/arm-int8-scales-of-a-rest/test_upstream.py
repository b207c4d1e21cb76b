# tests/kernels/quantization/test_cpu_int8_quant.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


@pytest.mark.parametrize("columns", [1, 15, 17, 31])
def test_dynamic_int8_quant_scale_of_a_rest(columns: int) -> None:
    x = torch.randn(3, columns)
    out, scale = torch.empty(3, columns, dtype=torch.int8), torch.empty(3, 1)
    torch.ops._C.dynamic_scaled_int8_quant(out, x, scale, None)
    torch.testing.assert_close(scale, x.abs().amax(1, keepdim=True) / 127)
