# tests/kernels/quantization/test_cpu_fp8_quant.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


def test_fp8_quant_of_batches_apart() -> None:
    x, scale = torch.randn(2, 5, 32)[:, :3], torch.tensor([0.02])
    out, expected = (torch.empty(6, 32, dtype=torch.float8_e4m3fn) for _ in range(2))
    torch.ops._C.static_scaled_fp8_quant(out, x, scale, None)
    torch.ops._C.static_scaled_fp8_quant(expected, x.flatten(0, 1), scale, None)
    assert torch.equal(out.view(torch.uint8), expected.view(torch.uint8))
