# tests/kernels/mamba/cpu/test_cpu_selective_state_update.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


def test_decay_of_each_component() -> None:
    state, x, ones = torch.full((1, 1, 1, 8), 5.0), torch.ones(1, 1, 1), torch.ones(1, 1, 8)
    decay = torch.tensor([0.0, -1e4] * 4)[None, None]
    torch.ops._C.selective_state_update_cpu(
        state, x, torch.ones(1, 1), decay, ones, ones, None, None, None,
        False, None, None, -1, torch.zeros(1, 1, 1), None, None,
    )  # fmt: skip
    assert state[0, 0, 0].tolist() == [6, 1] * 4
