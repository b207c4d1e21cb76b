# tests/kernels/test_onednn.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


def test_scaled_mm_of_large_numbers() -> None:
    # Wrong where oneDNN finds no VNNI, as with ONEDNN_MAX_CPU_ISA=AVX2.
    weight, scale = torch.full((32, 16), 127, dtype=torch.int8).t(), torch.ones(1, 1)
    x = torch.full((4, 16), 127, dtype=torch.int8)
    out = torch.zeros(4, 32)
    handle = torch.ops._C.create_onednn_scaled_mm_handler(weight, scale, torch.float32, False, False, 128)
    torch.ops._C.onednn_scaled_mm(out, x, scale, None, None, None, torch.tensor([handle]))
    torch.testing.assert_close(out, torch.full_like(out, 16.0 * 127 * 127))
