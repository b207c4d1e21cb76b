# tests/kernels/moe/test_cpu_quant_fused_moe.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()
if not hasattr(torch.ops._C, "fused_experts_cpu"):
    pytest.skip("fused_experts_cpu is not in this build", allow_module_level=True)


def test_float16_is_refused_or_computed() -> None:
    x = torch.ones(4, 32, dtype=torch.float16)
    w13, w2 = (torch.ops._C.convert_weight_packed(torch.zeros(1, rows, 32, dtype=x.dtype)) for rows in (64, 32))
    weights, ids = torch.ones(4, 1), torch.zeros(4, 1, dtype=torch.int32)
    out = torch.ones_like(x)
    try:
        torch.ops._C.fused_experts_cpu(out, x, w13, w2, weights, ids, 0, *[None] * 10, True, 0)
    except RuntimeError:
        return
    torch.testing.assert_close(out, torch.zeros_like(x))
