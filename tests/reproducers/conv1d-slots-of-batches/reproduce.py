import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "causal_conv1d_fwd_cpu"):
    print("not in this version or library: causal_conv1d_fwd_cpu")
    raise SystemExit(77)

states = torch.ones(3, 3, 32, dtype=torch.bfloat16).transpose(1, 2)  # 3 slots, 32 channels, width 4
x = torch.tensor([5.0, 6.0])[:, None, None].expand(2, 5, 32).bfloat16().contiguous().transpose(1, 2)
weight, slots, fresh = torch.ones(32, 4).bfloat16(), torch.tensor([2, 0], dtype=torch.int32), torch.tensor([False] * 2)
ops.causal_conv1d_fwd_cpu(x, weight, None, states, None, slots, fresh, False, -1, False)
print("slots 0, 1 and 2:", states[:, 0, -1].tolist())
raise SystemExit(states[:, 0, -1].tolist() != [6, 1, 5])
