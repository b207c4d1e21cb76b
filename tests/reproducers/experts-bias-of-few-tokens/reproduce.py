import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C

x = torch.ones(3, 32, dtype=torch.bfloat16)  # 3 tokens, 1 expert, hidden and inner size 32
w13, w2 = torch.zeros(1, 64, 32).bfloat16(), torch.full((1, 32, 32), 1 / 32).bfloat16()
bias13, bias2 = torch.tensor([16.0] * 32 + [1.0] * 32)[None], torch.zeros(1, 32)  # of gates 16, of linear units 1
share, expert, out = torch.ones(3, 1), torch.zeros(3, 1, dtype=torch.int32), torch.zeros_like(x)
w13, w2, none = ops.convert_weight_packed(w13), ops.convert_weight_packed(w2), [None] * 6
ops.fused_experts_cpu(out, x, w13, w2, share, expert, 0, *none, bias13, bias2, None, None, True, 0)
print(out[0, 0].item())
raise SystemExit(bool((out != 16).any()))
