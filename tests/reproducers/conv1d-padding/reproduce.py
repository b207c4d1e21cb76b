import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "causal_conv1d_update_cpu"):
    print("not in this version or library: causal_conv1d_update_cpu")
    raise SystemExit(77)

states = torch.ones(3, 3, 32, dtype=torch.bfloat16).transpose(1, 2)  # 3 slots, 32 channels, width 4
x, weight = torch.full((2, 32), 5.0).bfloat16(), torch.ones(32, 4, dtype=torch.bfloat16)
slots, pad = torch.tensor([0, 2], dtype=torch.int32), 2  # the second sequence is padding
ops.causal_conv1d_update_cpu(x, states, weight, None, False, None, slots, pad, False)
print("last column of slots 0, 1 and 2:", states[:, 0, -1].tolist())
raise SystemExit(states[:, 0, -1].tolist() != [5, 1, 1])
