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

state, x, out = torch.full((1, 1, 1, 8), 5.0), torch.ones(1, 1, 1), torch.zeros(1, 1, 1)
decay, ones, none = torch.tensor([0.0, -1e4] * 4)[None, None], torch.ones(1, 1, 8), [None] * 3
ops.selective_state_update_cpu(
    state, x, torch.ones(1, 1), decay, ones, ones, *none, False, None, None, -1, out, None, None
)
print(state[0, 0, 0].tolist())
raise SystemExit(state[0, 0, 0].tolist() != [6, 1] * 4)
