# tests/kernels/quantization/test_cpu_int8_quant.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


@pytest.mark.parametrize("value", [3.0, -0.5, 1e-30])
def test_dynamic_int8_quant_of_one_number(value: float) -> None:
    x, out = torch.full((2, 32), value), torch.empty(2, 32, dtype=torch.int8)
    scale, azp = torch.empty(2, 1), torch.empty(2, 1, dtype=torch.int32)
    torch.ops._C.dynamic_scaled_int8_quant(out, x, scale, azp)
    found = ((out.double() - azp) * scale).float()
    torch.testing.assert_close(found, x, rtol=1e-2, atol=0)
