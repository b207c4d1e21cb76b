# tests/kernels/test_onednn.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


def test_mm_output_not_contiguous() -> None:
    memory = torch.zeros(3, 32)
    handle = torch.ops._C.create_onednn_mm_handler(torch.ones(8, 16), 128)
    torch.ops._C.onednn_mm(memory[:, :16], torch.ones(3, 8), None, torch.tensor([handle]))
    assert (memory[:, :16] == 8).all()
    assert (memory[:, 16:] == 0).all()
