import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "fused_experts_cpu") or "act_method" not in str(ops.fused_experts_cpu.default._schema):
    print("not in this version or library: fused_experts_cpu with act_method")
    raise SystemExit(77)

x = torch.ones(3, 32, dtype=torch.bfloat16)  # 3 tokens, 1 expert, hidden and inner size 32
w13 = ops.convert_weight_packed(torch.full((1, 64, 32), 1 / 32).bfloat16())  # gates and linear units are 1
w2, out = ops.convert_weight_packed(torch.ones(1, 32, 32).bfloat16()), torch.zeros_like(x)
share, expert, gelu_tanh = torch.ones(3, 1), torch.zeros(3, 1, dtype=torch.int32), 3
ops.fused_experts_cpu(out, x, w13, w2, share, expert, 0, *[None] * 10, True, gelu_tanh)
right = bool(((out - 26.9).abs() < 0.2).all())
print("right:", right)
raise SystemExit(not right)
