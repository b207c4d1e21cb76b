import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "dynamic_scaled_int8_quant"):
    print("not in this version or library: dynamic_scaled_int8_quant")
    raise SystemExit(77)

x, out = torch.full((1, 32), 3.0), torch.empty(1, 32, dtype=torch.int8)
scale, azp = torch.empty(1, 1), torch.empty(1, 1, dtype=torch.int32)
ops.dynamic_scaled_int8_quant(out, x, scale, azp)
found = (out.double() - azp) * scale
print(f"scale {scale.item():.3g}, zero point {azp.item()}, so 3 becomes {found[0, 0].item():.3f}")
raise SystemExit(not bool(((found - 3).abs() < 0.03).all()))
