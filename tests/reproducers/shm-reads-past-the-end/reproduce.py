import ctypes
import importlib.util
import mmap
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "shm_all_gather"):
    print("not in this version or library: shm_all_gather")
    raise SystemExit(77)

name = f"reproduce-{os.getpid()}"
ops.join_shm_manager(handle := ops.init_shm_manager(name, 1, 0, 1), name)  # a group of one rank
for segment in Path("/dev/shm").glob(f"{name}_*"):
    segment.unlink()
block = mmap.mmap(-1, 2 * mmap.PAGESIZE)  # the second page may not be read
second = ctypes.addressof(ctypes.c_char.from_buffer(block, mmap.PAGESIZE))
ctypes.CDLL(None).mprotect(ctypes.c_void_p(second), ctypes.c_size_t(mmap.PAGESIZE), 0)
data = torch.frombuffer(block, dtype=torch.float32, count=5, offset=mmap.PAGESIZE - 20)
ops.shm_all_gather(handle, data, torch.empty(5))
print("returned")
