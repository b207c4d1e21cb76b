# tests/kernels/mamba/cpu/test_cpu_causal_conv1d.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()
if not hasattr(torch.ops._C, "causal_conv1d_fwd_cpu"):
    pytest.skip("causal_conv1d_fwd_cpu is not in this build", allow_module_level=True)


def test_conv1d_fwd_without_states() -> None:
    x = torch.ones(6, 32, dtype=torch.bfloat16).T
    weight = torch.ones(32, 4, dtype=torch.bfloat16)
    ends = torch.tensor([0, 6], dtype=torch.int32)
    out = torch.ops._C.causal_conv1d_fwd_cpu(x, weight, None, None, ends, None, None, False, -1, False)
    expected = torch.tensor([1, 2, 3, 4, 4, 4], dtype=x.dtype).expand(32, 6)
    torch.testing.assert_close(out, expected)
