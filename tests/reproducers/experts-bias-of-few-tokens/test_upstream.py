# tests/kernels/moe/test_cpu_quant_fused_moe.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()
if not hasattr(torch.ops._C, "fused_experts_cpu"):
    pytest.skip("fused_experts_cpu is not in this build", allow_module_level=True)


@pytest.mark.parametrize("tokens", [1, 3, 40])
def test_biases(tokens: int) -> None:
    x = torch.ones(tokens, 32, dtype=torch.bfloat16)
    pack = torch.ops._C.convert_weight_packed
    w13 = pack(torch.zeros(1, 64, 32).bfloat16())
    w2 = pack(torch.full((1, 32, 32), 1 / 32).bfloat16())
    bias13 = torch.tensor([16.0] * 32 + [1.0] * 32)[None]
    weights, ids = torch.ones(tokens, 1), torch.zeros(tokens, 1, dtype=torch.int32)
    out = torch.zeros_like(x)
    torch.ops._C.fused_experts_cpu(
        out, x, w13, w2, weights, ids, 0, *[None] * 6, bias13, torch.zeros(1, 32),
        None, None, True, 0,
    )  # fmt: skip
    assert (out == 16).all()
