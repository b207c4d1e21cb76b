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

weight, scale = torch.full((32, 16), 127, dtype=torch.int8).t(), torch.ones(1, 1)
x, out = torch.full((4, 16), 127, dtype=torch.int8), torch.zeros(4, 32)
handle = ops.create_onednn_scaled_mm_handler(weight, scale, torch.float32, False, False, 128)
ops.onednn_scaled_mm(out, x, scale, None, None, None, torch.tensor([handle]))
print("found", out[0, 0].item(), "instead of", 16 * 127 * 127)
raise SystemExit(bool((out != 16 * 127 * 127).any()))
