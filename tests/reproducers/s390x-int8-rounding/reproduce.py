import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C

x = torch.tensor([0.7, -0.7, 1.6, -127.6] * 4)[None]
out = torch.empty(1, 16, dtype=torch.int8)
ops.static_scaled_int8_quant(out, x, torch.ones(1), None)
print(out[0, :4].tolist())
raise SystemExit(out[0, :4].tolist() != [1, -1, 2, -128])
