# tests/kernels/mamba/cpu/test_cpu_selective_state_update.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


def test_source_of_a_state_is_kept() -> None:
    states = torch.tensor([9.0, 5, 9])[:, None, None, None].repeat(1, 1, 1, 8)
    x, ones = torch.ones(1, 1, 1), torch.ones(1, 1, 8)
    read, write = (torch.tensor([slot], dtype=torch.int32) for slot in (1, 2))
    torch.ops._C.selective_state_update_cpu(
        states, x, torch.ones(1, 1), torch.zeros(1), ones, ones, None, None, None,
        False, read, write, -1, torch.zeros(1, 1, 1), None, None,
    )  # fmt: skip
    assert states[:, 0, 0, 0].tolist() == [9, 5, 6]
