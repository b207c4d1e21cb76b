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

x, weight = torch.arange(1.0, 33)[:, None].repeat(1, 32), torch.ones(32, 32).to(torch.float8_e4m3fn)
out = ops.fp8_scaled_mm_with_quant(x, None, True, weight, torch.ones(32, 1), None, torch.float32)
print("first column:", [round(number, 1) for number in out[:4, 0].tolist()], "...")
raise SystemExit(not torch.allclose(out, x.sum(1, keepdim=True).expand_as(out)))
