# tests/kernels/mamba/cpu/test_cpu_selective_state_update.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("state_size", [12, 20])
def test_state_size_no_multiple_of_8(dtype: torch.dtype, state_size: int) -> None:
    state = torch.zeros(1, 2, 3, state_size, dtype=dtype)
    x, out = torch.ones(1, 2, 3), torch.zeros(1, 2, 3)
    ones = torch.ones(1, 1, state_size)
    torch.ops._C.selective_state_update_cpu(
        state, x, torch.ones(1, 2), torch.zeros(2), ones, ones, None, None, None,
        False, None, None, -1, out, None, None,
    )  # fmt: skip
    torch.testing.assert_close(state, torch.ones_like(state))
    torch.testing.assert_close(out, torch.full_like(out, state_size))
