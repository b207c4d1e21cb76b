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

states, slots = torch.full((2, 4, 3), 1.001), torch.tensor([0], dtype=torch.int32)
x, weight = torch.ones(1, 4, dtype=torch.bfloat16), torch.ones(4, 4, dtype=torch.bfloat16)
ops.causal_conv1d_update_cpu_vec(x, states, weight, None, None, slots, None, -1)
print(f"{states[1, 0, 0].item():.4f}")
raise SystemExit(bool((states[1] != torch.tensor(1.001)).any()))
