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

state = torch.zeros(1, 2, 3, 20, dtype=torch.bfloat16)  # sequences, heads, head size, state size
x, out, ones = torch.ones(1, 2, 3), torch.zeros(1, 2, 3), torch.ones(1, 1, 20)
decay, step, none = torch.zeros(2), torch.ones(1, 2), [None] * 3
ops.selective_state_update_cpu(state, x, step, decay, ones, ones, *none, False, None, None, -1, out, None, None)
right = bool((state == 1).all() and (out == 20).all())  # nothing decays, and 1 is added to each number
print("updated, right:", right)
raise SystemExit(not right)
