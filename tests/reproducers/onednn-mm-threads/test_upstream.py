# tests/kernels/test_onednn.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


def test_mm_handlers_of_other_numbers_of_threads() -> None:
    before = torch.get_num_threads()
    weight, x = torch.eye(32, 64, dtype=torch.bfloat16), torch.rand(4, 32).bfloat16()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            out = torch.empty(4, 64, dtype=torch.bfloat16)
            handle = torch.ops._C.create_onednn_mm_handler(weight, 128)
            torch.ops._C.onednn_mm(out, x, None, torch.tensor(handle))
            assert torch.equal(out[:, :32], x)
    finally:
        torch.set_num_threads(before)
