# tests/distributed/test_cpu_shm.py
import ctypes
import mmap

import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()
if not hasattr(torch.ops._C, "init_shm_manager"):
    pytest.skip("init_shm_manager is not in this build", allow_module_level=True)


def test_all_gather_reads_no_further() -> None:
    handle = torch.ops._C.init_shm_manager("test-end", 1, 0, 1)
    torch.ops._C.join_shm_manager(handle, "test-end")
    block = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    second = ctypes.addressof(ctypes.c_char.from_buffer(block, mmap.PAGESIZE))
    ctypes.CDLL(None).mprotect(ctypes.c_void_p(second), ctypes.c_size_t(mmap.PAGESIZE), 0)
    data = torch.frombuffer(block, dtype=torch.float32, count=5, offset=mmap.PAGESIZE - 20)
    out = torch.empty(5)
    torch.ops._C.shm_all_gather(handle, data, out)
    assert torch.equal(out, data)
