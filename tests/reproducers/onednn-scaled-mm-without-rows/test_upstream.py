# tests/kernels/test_onednn.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


def test_scaled_mm_no_rows() -> None:
    weight, scale = torch.ones(16, 16, dtype=torch.int8).t(), torch.ones(1, 1)
    memory = torch.ones(4, 16, dtype=torch.bfloat16)
    handle = torch.ops._C.create_onednn_scaled_mm_handler(weight, scale, torch.bfloat16, False, False, 128)
    x = torch.empty(0, 16, dtype=torch.int8)
    torch.ops._C.onednn_scaled_mm(memory[:0], x, scale, None, None, None, torch.tensor([handle]))
    assert (memory == 1).all()
