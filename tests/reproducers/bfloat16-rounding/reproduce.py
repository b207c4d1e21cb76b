import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "silu_and_mul"):
    print("not in this version or library: silu_and_mul")
    raise SystemExit(77)

gate, up = torch.full((1, 16), 100.0).bfloat16(), torch.full((1, 16), 1.0078125).bfloat16()
out = torch.empty(1, 16, dtype=torch.bfloat16)
ops.silu_and_mul(out, torch.cat([gate, up], 1))  # SiLU of 100 is 100
print(out[0, 0].item())
raise SystemExit(bool((out != 101).any()))
