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

states = torch.tensor([9.0, 10, 20, 30, 40])[:, None, None, None].repeat(1, 1, 1, 8)  # 5 slots
x, out, ones, none = torch.ones(4, 1, 1), torch.zeros(4, 1, 1), torch.ones(4, 1, 8), [None] * 3
slots = torch.tensor([[1, 2], [3, 4]], dtype=torch.int32)  # of two sequences with two tokens each
accepted, ends = torch.tensor([2, 1], dtype=torch.int32), torch.tensor([0, 2, 4], dtype=torch.int32)
ops.selective_state_update_cpu(  # nothing decays, and each token adds 1
    states, x, torch.ones(4, 1), torch.zeros(1), ones, ones, *none, False, slots, slots, -1, out, accepted, ends
)
print(states[:, 0, 0, 0].tolist())
raise SystemExit(states[:, 0, 0, 0].tolist() != [9, 21, 22, 31, 32])
