# tests/kernels/moe/test_cpu_quant_fused_moe.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()
if not hasattr(torch.ops._C, "fused_experts_cpu"):
    pytest.skip("fused_experts_cpu is not in this build", allow_module_level=True)


def test_no_tokens() -> None:
    x = torch.ones(0, 32, dtype=torch.bfloat16)
    w13, w2 = (torch.ops._C.convert_weight_packed(torch.zeros(1, rows, 32, dtype=x.dtype)) for rows in (64, 32))
    weights, ids = torch.ones(0, 1), torch.zeros(0, 1, dtype=torch.int32)
    torch.ops._C.fused_experts_cpu(x.clone(), x, w13, w2, weights, ids, 0, *[None] * 10, True, 0)
