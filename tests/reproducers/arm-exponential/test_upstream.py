# tests/kernels/core/test_cpu_activation.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


def test_silu_and_mul_float32_precision() -> None:
    gate, up = torch.linspace(-20, 20, 4096)[None], torch.ones(1, 4096)
    out = torch.empty(1, 4096)
    torch.ops._C.silu_and_mul(out, torch.cat([gate, up], 1))
    expected = torch.nn.functional.silu(gate.double()).float()
    torch.testing.assert_close(out, expected, rtol=2e-6, atol=0)
