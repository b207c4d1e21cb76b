# tests/kernels/quantization/test_cpu_fp8_scaled_mm.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()
if not hasattr(torch.ops._C, "fp8_scaled_mm_with_quant"):
    pytest.skip("fp8_scaled_mm_with_quant is not in this build", allow_module_level=True)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("channelwise", [False, True])
def test_no_rows(packed: bool, channelwise: bool) -> None:
    weight, scales = torch.zeros(32, 32).to(torch.float8_e4m3fn), torch.ones(32, 1)
    if packed:
        weight, scales = torch.ops._C.float8_linear_prepack_cpu(weight, scales)
    scale = None if channelwise else torch.ones(1)
    out = torch.ops._C.fp8_scaled_mm_with_quant(
        torch.ones(0, 32), scale, channelwise, weight, scales, None, torch.float32
    )
    assert out.shape == (0, 32)
