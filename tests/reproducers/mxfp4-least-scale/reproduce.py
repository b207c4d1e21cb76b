import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C

x = torch.ones(1, 32, dtype=torch.bfloat16)  # 1 token, 1 expert, hidden and inner size 32
w13, w2 = torch.full((1, 64, 16), 0x11, dtype=torch.uint8), torch.full((1, 32, 16), 0x22, dtype=torch.uint8)
scale13, scale2 = (torch.full((1, rows, 1), 127, dtype=torch.uint8) for rows in (64, 32))
scale13[:, 32:] = 0  # linear units have weights of 0.5 * 2^-127
w13, w2, scale13, scale2 = (
    *map(ops.convert_weight_packed, (w13, w2)),
    *map(ops.convert_scale_packed, (scale13, scale2)),
)
share, expert, out = torch.ones(1, 1), torch.zeros(1, 1, dtype=torch.int32), torch.zeros_like(x)
ops.fused_experts_cpu(out, x, w13, w2, share, expert, 4, scale13, scale2, *[None] * 8, True, 0)
print("right" if bool((out.abs() < 1e-30).all()) else f"found {out[0, 0].item()}")
raise SystemExit(not bool((out.abs() < 1e-30).all()))
