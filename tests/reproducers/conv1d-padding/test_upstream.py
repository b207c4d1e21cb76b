# tests/kernels/mamba/cpu/test_cpu_causal_conv1d.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()
if not hasattr(torch.ops._C, "causal_conv1d_fwd_cpu"):
    pytest.skip("causal_conv1d_fwd_cpu is not in this build", allow_module_level=True)


def test_conv1d_padding_is_not_written() -> None:
    weight = torch.ones(32, 4, dtype=torch.bfloat16)
    slots = torch.tensor([0, 2], dtype=torch.int32)
    pools = [torch.ones(3, 3, 32, dtype=torch.bfloat16).mT for _ in range(2)]
    torch.ops._C.causal_conv1d_update_cpu(
        torch.zeros(2, 32).bfloat16(), pools[0], weight, None, False, None, slots, 2,
        False,
    )  # fmt: skip
    ends, initial = torch.tensor([0, 3, 6], dtype=torch.int32), torch.tensor([True] * 2)
    torch.ops._C.causal_conv1d_fwd_cpu(
        torch.zeros(6, 32).bfloat16().T, weight, None, pools[1], ends, slots, initial,
        False, 2, False,
    )  # fmt: skip
    for pool in pools:
        assert (pool[0, :, -1] == 0).all()
        assert (pool[2] == 1).all()
