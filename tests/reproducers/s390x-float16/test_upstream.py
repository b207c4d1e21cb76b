# tests/kernels/core/test_cpu_activation.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


@pytest.mark.parametrize("number", [0.0, 2.0**-24, 2.0**-15, 600.0, 1000.0])
def test_silu_and_mul_float16_numbers(number: float) -> None:
    gate, up = torch.full((1, 16), 100.0).half(), torch.full((1, 16), number).half()
    out = torch.empty_like(up)
    torch.ops._C.silu_and_mul(out, torch.cat([gate, up], 1))
    assert torch.equal(out, (100 * up.float()).half())
