# tests/kernels/attention/test_cpu_extend_attention.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()
if not hasattr(torch.ops._C, "extend_attention_cpu"):
    pytest.skip("extend_attention_cpu is not in this build", allow_module_level=True)


def test_extend_attention_applies_the_cap() -> None:
    query = torch.full((2, 1, 32), 4.0).bfloat16()
    keys = torch.tensor([1.0, -1.0])[:, None, None].repeat(1, 1, 32).bfloat16()
    values = torch.tensor([1.0, 0.0])[:, None, None].repeat(1, 1, 32).bfloat16()
    out, two, zero = torch.zeros_like(query), torch.tensor([2]), torch.tensor([0])
    torch.ops._C.extend_attention_cpu(
        query, keys, values, out, keys, values, torch.arange(2)[None], zero, two, two,
        zero, 2, 1.0, 1.0, False, 0, None, None,
    )  # fmt: skip
    expected = torch.sigmoid(torch.tensor(2.0)).bfloat16().expand(1, 32)
    torch.testing.assert_close(out[1], expected, atol=1e-2, rtol=0)
