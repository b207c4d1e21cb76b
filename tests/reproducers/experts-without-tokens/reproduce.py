import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C

x = torch.ones(0, 32, dtype=torch.bfloat16)  # no tokens, 1 expert, hidden and inner size 32
w13, w2 = (ops.convert_weight_packed(torch.zeros(1, rows, 32, dtype=torch.bfloat16)) for rows in (64, 32))
share, expert = torch.ones(0, 1), torch.zeros(0, 1, dtype=torch.int32)
ops.fused_experts_cpu(x.clone(), x, w13, w2, share, expert, 0, *[None] * 10, True, 0)
print("returned")
