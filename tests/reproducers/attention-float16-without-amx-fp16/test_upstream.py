# tests/kernels/attention/test_cpu_extend_attention.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()
if not hasattr(torch.ops._C, "extend_attention_cpu"):
    pytest.skip("extend_attention_cpu is not in this build", allow_module_level=True)


def test_extend_attention_float16() -> None:
    query, keys = torch.zeros(4, 1, 32).half(), torch.zeros(4, 1, 32).half()
    values = torch.arange(4.0)[:, None, None].repeat(1, 1, 32).half()
    out, four, zero = torch.zeros_like(query), torch.tensor([4]), torch.tensor([0])
    try:
        torch.ops._C.extend_attention_cpu(
            query, keys, values, out, keys, values, torch.arange(4)[None], zero, four,
            four, zero, 4, 1.0, 0.0, False, 0, None, None,
        )  # fmt: skip
    except RuntimeError as error:
        pytest.skip(f"refused on this CPU: {error}")
    expected = torch.tensor([0, 0.5, 1, 1.5]).half()[:, None, None].expand(4, 1, 32)
    torch.testing.assert_close(out, expected, atol=1e-2, rtol=0)
