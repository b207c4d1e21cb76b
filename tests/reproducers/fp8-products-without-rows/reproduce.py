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

x, weight = torch.ones(0, 32), torch.zeros(32, 32).to(torch.float8_e4m3fn)
out = ops.fp8_scaled_mm_with_quant(x, None, True, weight, torch.ones(32, 1), None, torch.float32)
print("returned", tuple(out.shape))
raise SystemExit(out.shape != (0, 32))
