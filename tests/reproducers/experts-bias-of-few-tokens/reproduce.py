import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "fused_experts_cpu"):
    print("not in this version or library: fused_experts_cpu")
    raise SystemExit(77)

x = torch.ones(3, 32, dtype=torch.bfloat16)  # 3 tokens, 1 expert, hidden and inner size 32
w13, w2 = torch.zeros(1, 64, 32).bfloat16(), torch.full((1, 32, 32), 1 / 32).bfloat16()
bias13, bias2 = torch.tensor([16.0] * 32 + [1.0] * 32)[None], torch.zeros(1, 32)  # of gates 16, of linear units 1
share, expert, out = torch.ones(3, 1), torch.zeros(3, 1, dtype=torch.int32), torch.zeros_like(x)
w13, w2 = ops.convert_weight_packed(w13), ops.convert_weight_packed(w2)
given = {"hidden_states": x, "w1": w13, "w2": w2, "topk_weights": share, "topk_ids": expert, "is_vnni": True}
given |= {"out": out, "inplace": False, "moe_comp_method": 0, "w1_bias": bias13, "w2_bias": bias2, "act_method": 0}
names = [one.name for one in ops.fused_experts_cpu.default._schema.arguments]  # they differ between versions
result = ops.fused_experts_cpu(**{name: given.get(name) for name in names})
out = out if result is None else result
print(out[0, 0].item())
raise SystemExit(bool((out != 16).any()))
