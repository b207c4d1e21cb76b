# tests/kernels/quantization/test_cpu_int8_quant.py
import ctypes
import mmap

import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


def test_dynamic_int8_quant_at_the_end_of_a_mapping() -> None:
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + page), ctypes.c_size_t(page), mmap.PROT_READ * 0)
    x = torch.frombuffer(memory, dtype=torch.float32, count=9, offset=page - 36)
    x.copy_(torch.arange(9.0))
    out, scale = torch.empty(1, 9, dtype=torch.int8), torch.empty(1, 1)
    torch.ops._C.dynamic_scaled_int8_quant(out, x[None], scale, None)
    assert out[0, 8] == 127
