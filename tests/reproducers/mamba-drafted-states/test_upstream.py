# tests/kernels/mamba/cpu/test_cpu_selective_state_update.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


def test_states_of_accepted_tokens() -> None:
    states = torch.tensor([9.0, 10, 20, 30, 40])[:, None, None, None].repeat(1, 1, 1, 8)
    x, ones = torch.ones(4, 1, 1), torch.ones(4, 1, 8)
    slots = torch.tensor([[1, 2], [3, 4]], dtype=torch.int32)
    accepted = torch.tensor([2, 1], dtype=torch.int32)
    ends = torch.tensor([0, 2, 4], dtype=torch.int32)
    torch.ops._C.selective_state_update_cpu(
        states, x, torch.ones(4, 1), torch.zeros(1), ones, ones, None, None, None,
        False, slots, slots, -1, torch.zeros(4, 1, 1), accepted, ends,
    )  # fmt: skip
    assert states[:, 0, 0, 0].tolist() == [9, 21, 22, 31, 32]
