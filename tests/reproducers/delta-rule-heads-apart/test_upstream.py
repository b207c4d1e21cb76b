# tests/kernels/mamba/cpu/test_cpu_gdn_ops.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


def test_chunk_heads_before_tokens() -> None:
    q, k, v = (torch.randn(1, 5, 2, 64).bfloat16() for _ in range(3))
    g, beta = -torch.rand(1, 5, 2), torch.rand(1, 5, 2).bfloat16()
    ends = torch.tensor([0, 5], dtype=torch.int32)

    def run(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return torch.ops._C.chunk_gated_delta_rule_cpu(
            q, k, v, g, beta, torch.zeros(1, 2, 64, 64), True, ends, False, True,
            torch.tensor([0], dtype=torch.int32),
        )[0]  # fmt: skip

    apart = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k)]
    assert torch.equal(run(*apart), run(q, k))
