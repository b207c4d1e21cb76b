import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "onednn_mm"):
    print("not in this version or library: onednn_mm")
    raise SystemExit(77)

if not torch.cpu._is_amx_tile_supported():
    print("not on this CPU: AMX")
    raise SystemExit(77)

weight, x = torch.eye(32, 64, dtype=torch.bfloat16), torch.arange(32, dtype=torch.bfloat16).expand(4, 32).contiguous()
wrong = []
for threads in (1, 2):
    torch.set_num_threads(threads)
    out = torch.empty(4, 64, dtype=torch.bfloat16)
    ops.onednn_mm(out, x, None, torch.tensor(ops.create_onednn_mm_handler(weight, 128)))
    wrong.append(int((out[:, :32] != x).sum()))
print("wrong elements with one thread:", wrong[0], "and with two:", wrong[1])
raise SystemExit(any(wrong))
