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

weight, x, memory = torch.ones(8, 16), torch.ones(3, 8), torch.zeros(3, 32)
handle = ops.create_onednn_mm_handler(weight, 128)
ops.onednn_mm(memory[:, :16], x, None, torch.tensor([handle]))
rows, gaps = memory.split(16, 1)
print("wrong elements in the rows:", int((rows != 8).sum()), "between them:", int((gaps != 0).sum()))
raise SystemExit(bool((rows != 8).any() or (gaps != 0).any()))
