import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "fp8_scaled_mm_cpu"):
    print("not in this version or library: fp8_scaled_mm_cpu")
    raise SystemExit(77)

x = torch.ones(1, 128, dtype=torch.bfloat16)
weight = ops.convert_weight_packed(torch.zeros(32, 128).to(torch.float8_e4m3fn))
out = ops.fp8_scaled_mm_cpu(x, weight, torch.ones(1, 1), [32, 128], None, torch.bfloat16, True)
print("128 ones times zeros:", out[0, 0].item())
raise SystemExit(bool((out != 0).any()))
