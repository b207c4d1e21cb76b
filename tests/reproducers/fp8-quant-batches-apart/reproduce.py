import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not ops.static_scaled_fp8_quant.default._schema.arguments:
    print("not in this version: static_scaled_fp8_quant has no kernel")
    raise SystemExit(77)

memory = torch.zeros(2, 5, 32)
memory[:, :3] = 1  # of each batch 3 rows are used
out = torch.empty(6, 32, dtype=torch.float8_e4m3fn)
ops.static_scaled_fp8_quant(out, memory[:, :3], torch.ones(1), None)
print("rows:", out.float()[:, 0].tolist())
raise SystemExit(bool((out.float() != 1).any()))
