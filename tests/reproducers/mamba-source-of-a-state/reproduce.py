import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "selective_state_update_cpu"):
    print("not in this version or library: selective_state_update_cpu")
    raise SystemExit(77)

states = torch.tensor([9.0, 5, 9])[:, None, None, None].repeat(1, 1, 1, 8)  # 3 slots
x, out, ones, none = torch.ones(1, 1, 1), torch.zeros(1, 1, 1), torch.ones(1, 1, 8), [None] * 3
read, write = torch.tensor([1], dtype=torch.int32), torch.tensor([2], dtype=torch.int32)
ops.selective_state_update_cpu(  # nothing decays, and 1 is added
    states, x, torch.ones(1, 1), torch.zeros(1), ones, ones, *none, False, read, write, -1, out, None, None
)
print(states[:, 0, 0, 0].tolist())
raise SystemExit(states[:, 0, 0, 0].tolist() != [9, 5, 6])
