# tests/kernels/mamba/cpu/test_cpu_causal_conv1d.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()
if not hasattr(torch.ops._C, "causal_conv1d_fwd_cpu"):
    pytest.skip("causal_conv1d_fwd_cpu is not in this build", allow_module_level=True)


def test_conv1d_fwd_slots_of_batches() -> None:
    states = torch.ones(3, 3, 32, dtype=torch.bfloat16).mT
    x = torch.randn(2, 5, 32).bfloat16().mT
    slots = torch.tensor([2, 0], dtype=torch.int32)
    torch.ops._C.causal_conv1d_fwd_cpu(
        x, torch.ones(32, 4).bfloat16(), None, states, None, slots,
        torch.tensor([False, False]), False, -1, False,
    )  # fmt: skip
    torch.testing.assert_close(states[[2, 0]], x[..., -3:])
    assert (states[1] == 1).all()
