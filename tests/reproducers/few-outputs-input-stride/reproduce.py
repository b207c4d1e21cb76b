import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "weight_packed_linear"):
    print("not in this version or library: weight_packed_linear")
    raise SystemExit(77)

x = torch.tensor([1.0, 0.0]).repeat_interleave(32).repeat(2, 1).bfloat16()[:, :32]  # ones, with zeros between rows
weight, out = ops.convert_weight_packed(torch.ones(8, 32).bfloat16()), torch.zeros(2, 8).bfloat16()
ops.weight_packed_linear(out, x, weight, None, True)
print(out[:, 0].tolist())
raise SystemExit(bool((out != 32).any()))
