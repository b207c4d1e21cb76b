import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "fused_gdn_gating_cpu"):
    print("not in this version or library: fused_gdn_gating_cpu")
    raise SystemExit(77)

torch.manual_seed(0)
a, b = torch.randn(3, 8).bfloat16().chunk(2, 1)  # 3 tokens, 4 heads
_, beta = ops.fused_gdn_gating_cpu(torch.zeros(4), a.contiguous(), b, torch.zeros(4).bfloat16())
wrong = int(((beta[0] - b.float().sigmoid()).abs() > 0.01).sum())
print("wrong elements:", wrong, "of", beta.numel())
raise SystemExit(wrong > 0)
