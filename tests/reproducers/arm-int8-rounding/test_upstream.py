# tests/kernels/quantization/test_cpu_int8_quant.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


def test_static_int8_quant_rounds() -> None:
    x = torch.linspace(-127.4, 127.4, 1024)[None]
    out = torch.empty(1, 1024, dtype=torch.int8)
    torch.ops._C.static_scaled_int8_quant(out, x, torch.ones(1), None)
    assert torch.equal(out, x.round().to(torch.int8))
