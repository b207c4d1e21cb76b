import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "cpu_attn_reshape_and_cache"):
    print("not in this version or library: cpu_attn_reshape_and_cache")
    raise SystemExit(77)

x = torch.full((1, 1, 64), float("nan"))
cache = torch.zeros(1, 1, 64, 64, dtype=torch.uint8)
keys, values = cache.chunk(2, 2)
ops.cpu_attn_reshape_and_cache(x, x, keys, values, torch.zeros(1).long(), "vec", 1.0, 1.0, "fp8_e4m3")
stored = values[0, 0, 0].view(torch.float8_e4m3fn).float()
print("NaN is stored as", stored[0].item())
raise SystemExit(not bool(stored.isnan().all()))
