import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "fused_sigmoid_gating_delta_rule_update_cpu"):
    print("not in this version or library: fused_sigmoid_gating_delta_rule_update_cpu")
    raise SystemExit(77)

query, key, value = (torch.zeros(1, 1, 1, 16).bfloat16() for _ in range(3))
a, b, state = torch.full((1, 1), -3.0).bfloat16(), torch.zeros(1, 1).bfloat16(), torch.ones(1, 1, 16, 16)
slots, ends, bias, beta = torch.tensor([0]).int(), torch.tensor([0, 1]).int(), torch.zeros(1).bfloat16(), 2.0
ops.fused_sigmoid_gating_delta_rule_update_cpu(
    torch.zeros(1), bias, query, key, value, a, b, state, slots, ends, True, beta, 20.0
)
print(f"{state[0, 0, 0, 0].item():.4f}")
raise SystemExit(not bool(((state - 0.9988).abs() < 1e-3).all()))
