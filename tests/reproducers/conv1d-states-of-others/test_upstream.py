# tests/kernels/mamba/cpu/test_cpu_causal_conv1d.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


def test_conv1d_update_keeps_other_states() -> None:
    states, slots = torch.full((2, 4, 3), 1.001), torch.tensor([0], dtype=torch.int32)
    x, weight = torch.ones(1, 4).bfloat16(), torch.ones(4, 4).bfloat16()
    torch.ops._C.causal_conv1d_update_cpu_vec(x, states, weight, None, None, slots, None, -1)
    assert (states[1] == torch.tensor(1.001)).all()
