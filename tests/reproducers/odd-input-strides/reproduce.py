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

memory = torch.ones(2, 33).bfloat16()
memory[:, 32] = float("nan")  # between the rows, and not to be read
weight, out = ops.convert_weight_packed(torch.ones(32, 32).bfloat16()), torch.zeros(2, 32).bfloat16()
ops.weight_packed_linear(out, memory[:, :32], weight, None, True)
print(out[:, 0].tolist())
raise SystemExit(bool((out != 32).any()))
