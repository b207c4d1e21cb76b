import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "fp8_scaled_mm_with_quant"):
    print("not in this version or library: fp8_scaled_mm_with_quant")
    raise SystemExit(77)

x, weight = torch.ones(1, 65, dtype=torch.bfloat16), torch.ones(32, 65).to(torch.float8_e4m3fn)
x[:, -1] = 448
out = ops.fp8_scaled_mm_with_quant(x, None, True, weight, torch.ones(32, 1), None, torch.float32)
right = int((out == 512).sum())
print(f"right: {right} of {out.numel()}")
raise SystemExit(right != out.numel())
