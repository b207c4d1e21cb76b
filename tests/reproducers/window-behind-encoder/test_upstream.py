# tests/kernels/attention/test_cpu_decode_attention.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()
if not hasattr(torch.ops._C, "decode_attention_cpu"):
    pytest.skip("decode_attention_cpu is not in this build", allow_module_level=True)


def test_window_behind_an_encoder() -> None:
    query, keys = torch.zeros(1, 1, 32).bfloat16(), torch.zeros(6, 1, 32).bfloat16()
    values = torch.arange(6.0)[:, None, None].repeat(1, 1, 32).bfloat16()
    out, three = torch.zeros_like(query), torch.tensor([3])
    torch.ops._C.decode_attention_cpu(
        query, keys, values, out, None, None, None, torch.zeros(1, 1, 1, 33),
        torch.arange(6)[None], torch.tensor([0]), three, 1.0, 0.0, False, 2, three,
        None,
    )  # fmt: skip
    assert (out == 4.5).all()
