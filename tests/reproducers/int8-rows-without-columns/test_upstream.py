# tests/kernels/quantization/test_cpu_int8_quant.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


@pytest.mark.parametrize("with_azp", [False, True])
def test_dynamic_int8_quant_no_columns(with_azp: bool) -> None:
    x, out = torch.empty(4, 0), torch.empty(4, 0, dtype=torch.int8)
    azp = torch.empty(4, 1, dtype=torch.int32) if with_azp else None
    torch.ops._C.dynamic_scaled_int8_quant(out, x, torch.empty(4, 1), azp)
