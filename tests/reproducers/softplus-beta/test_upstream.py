# tests/kernels/mamba/cpu/test_cpu_gdn_ops.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


@pytest.mark.parametrize("beta", [1.0, 2.0])
def test_softplus_beta(beta: float) -> None:
    q, k, v = (torch.zeros(1, 1, 1, 16).bfloat16() for _ in range(3))
    a, state = torch.full((1, 1), -3.0).bfloat16(), torch.ones(1, 1, 16, 16)
    torch.ops._C.fused_sigmoid_gating_delta_rule_update_cpu(
        torch.zeros(1), torch.zeros(1).bfloat16(), q, k, v, a, torch.zeros_like(a),
        state, torch.tensor([0]).int(), torch.tensor([0, 1]).int(), True, beta, 20.0,
    )  # fmt: skip
    decay = torch.nn.functional.softplus(torch.tensor(-3.0), beta=beta)
    torch.testing.assert_close(state, torch.exp(-decay).expand_as(state), atol=1e-3, rtol=0)
