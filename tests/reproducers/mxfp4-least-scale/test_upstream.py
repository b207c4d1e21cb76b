# tests/kernels/moe/test_cpu_quant_fused_moe.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()
if not hasattr(torch.ops._C, "fused_experts_cpu"):
    pytest.skip("fused_experts_cpu is not in this build", allow_module_level=True)


def test_mxfp4_least_scale() -> None:
    ops, x = torch.ops._C, torch.ones(1, 32, dtype=torch.bfloat16)
    w13 = ops.convert_weight_packed(torch.full((1, 64, 16), 0x11, dtype=torch.uint8))
    w2 = ops.convert_weight_packed(torch.full((1, 32, 16), 0x22, dtype=torch.uint8))
    scale13 = torch.full((1, 64, 1), 127, dtype=torch.uint8)
    scale13[:, 32:] = 0
    scale2 = torch.full((1, 32, 1), 127, dtype=torch.uint8)
    weights, ids = torch.ones(1, 1), torch.zeros(1, 1, dtype=torch.int32)
    out = torch.ones_like(x)
    ops.fused_experts_cpu(
        out, x, w13, w2, weights, ids, 4, ops.convert_scale_packed(scale13),
        ops.convert_scale_packed(scale2), *[None] * 8, True, 0,
    )  # fmt: skip
    assert (out.abs() < 1e-30).all()
