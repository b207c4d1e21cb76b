import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "onednn_scaled_mm"):
    print("not in this version or library: onednn_scaled_mm")
    raise SystemExit(77)

weight, scale = torch.ones(16, 16, dtype=torch.int8).t(), torch.ones(1, 1)
memory = torch.ones(4, 16, dtype=torch.bfloat16)
x, out = torch.empty(0, 16, dtype=torch.int8), memory[:0]  # the output has no rows
handle = ops.create_onednn_scaled_mm_handler(weight, scale, torch.bfloat16, False, False, 128)
ops.onednn_scaled_mm(out, x, scale, None, None, None, torch.tensor([handle]))
print("overwritten elements behind the output:", int((memory != 1).sum()))
raise SystemExit(bool((memory != 1).any()))
