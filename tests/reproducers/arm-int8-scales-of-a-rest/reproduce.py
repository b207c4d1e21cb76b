import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C

x = torch.ones(1, 17)
x[0, 3] = 127  # in the first vector; the rest is one number
out, scale = torch.empty(1, 17, dtype=torch.int8), torch.empty(1, 1)
ops.dynamic_scaled_int8_quant(out, x, scale, None)
print(scale.item())
raise SystemExit(scale.item() != 1)
