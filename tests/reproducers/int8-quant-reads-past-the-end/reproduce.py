import ctypes
import importlib.util
import mmap
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "dynamic_scaled_int8_quant"):
    print("not in this version or library: dynamic_scaled_int8_quant")
    raise SystemExit(77)

memory = mmap.mmap(-1, 2 * mmap.PAGESIZE)  # the second page is made unreadable
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
libc = ctypes.CDLL(None)
libc.mprotect(ctypes.c_void_p(start + mmap.PAGESIZE), ctypes.c_size_t(mmap.PAGESIZE), 0)
x = torch.frombuffer(memory, dtype=torch.float32, count=9, offset=mmap.PAGESIZE - 36)[None]
x.copy_(torch.arange(9.0))
out, scale = torch.empty(1, 9, dtype=torch.int8), torch.empty(1, 1)
ops.dynamic_scaled_int8_quant(out, x, scale, None)
print(out.tolist())
raise SystemExit(out[0, 8].item() != 127)
