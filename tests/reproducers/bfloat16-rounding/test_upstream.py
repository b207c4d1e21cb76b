# tests/kernels/core/test_cpu_activation.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


def test_silu_and_mul_rounds_to_nearest() -> None:
    gate = torch.full((4, 64), 100.0).bfloat16()
    up = torch.rand(4, 64).bfloat16()
    out = torch.empty_like(up)
    torch.ops._C.silu_and_mul(out, torch.cat([gate, up], 1))
    # SiLU of 100 is 100 in float32.
    assert torch.equal(out, (gate.float() * up.float()).bfloat16())
