import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "causal_conv1d_update_cpu_vec"):
    print("not in this version or library: causal_conv1d_update_cpu_vec")
    raise SystemExit(77)

weight = torch.tensor([[1.0, 10.0, 100.0, 1000.0]])  # one channel, width 4
states = torch.tensor([[[1.0, 2.0, 3.0, float("nan")]]])  # one slot, with one column for a draft
out = ops.causal_conv1d_update_cpu_vec(torch.full((1, 1), 4.0), states, weight, None, None, None, None, -1)
print(out.item())
raise SystemExit(out.item() != 4321)
