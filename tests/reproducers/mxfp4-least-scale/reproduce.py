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

x = torch.ones(1, 32, dtype=torch.bfloat16)  # 1 token, 1 expert, hidden and inner size 32
w13, w2 = torch.full((1, 64, 16), 0x11, dtype=torch.uint8), torch.full((1, 32, 16), 0x22, dtype=torch.uint8)
scale13, scale2 = (torch.full((1, rows, 1), 127, dtype=torch.uint8) for rows in (64, 32))
scale13[:, 32:] = 0  # linear units have weights of 0.5 * 2^-127
w13, w2 = map(ops.convert_weight_packed, (w13, w2))
scale13, scale2 = map(ops.convert_scale_packed, (scale13, scale2))
share, expert, out = torch.ones(1, 1), torch.zeros(1, 1, dtype=torch.int32), torch.zeros_like(x)
given = {"hidden_states": x, "w1": w13, "w2": w2, "topk_weights": share, "topk_ids": expert, "is_vnni": True}
given |= {"out": out, "inplace": False, "moe_comp_method": 4, "w1_scale": scale13, "w2_scale": scale2, "act_method": 0}
names = [one.name for one in ops.fused_experts_cpu.default._schema.arguments]  # they differ between versions
result = ops.fused_experts_cpu(**{name: given.get(name) for name in names})
out = out if result is None else result
print("right" if bool((out.abs() < 1e-30).all()) else f"found {out[0, 0].item()}")
raise SystemExit(not bool((out.abs() < 1e-30).all()))
