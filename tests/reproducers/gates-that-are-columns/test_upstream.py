# tests/kernels/mamba/cpu/test_cpu_gdn_ops.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


def test_gates_that_are_columns() -> None:
    a, b = torch.randn(3, 8).bfloat16().chunk(2, 1)
    a = a.contiguous()  # it is refused else
    bias = torch.zeros(4).bfloat16()
    found = torch.ops._C.fused_gdn_gating_cpu(torch.zeros(4), a, b, bias)
    expected = torch.ops._C.fused_gdn_gating_cpu(torch.zeros(4), a, b.contiguous(), bias)
    torch.testing.assert_close(found, expected)
